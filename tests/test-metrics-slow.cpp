// A recording of 1 GB: every metric reads it once, and keeps little of it.

#include "io/npz-writer.h"
#include "io/pending-file.h"
#include "observe/record-member.h"
#include "support/cli.h"
#include "support/paths.h"
#include "support/skip.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include <sys/resource.h>
#include <sys/wait.h>

using namespace buoy;
using namespace buoy::test;

namespace {

constexpr int64_t n_steps = 64, n_layers = 32, n_positions = 512;

// Head means as f16: every row looks at itself and at one anchor, which moves with the variant.
std::string pattern_member(int64_t variant) {
    const std::string     header = npy_header(NpyType::f2, {n_positions, n_positions});
    std::vector<uint16_t> values(n_positions * n_positions);
    for (int64_t i = 0; i < n_positions; i++) {
        values[static_cast<size_t>(i * n_positions + i)]           = 0x3800; // 0.5
        values[static_cast<size_t>(i * n_positions + 7 * variant)] = i == 7 * variant ? 0x3c00 : 0x3800;
    }
    return header + std::string(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(uint16_t));
}

nlohmann::json meta() {
    std::vector<int> steps(n_steps), layers(n_layers);
    std::iota(steps.begin(), steps.end(), 0);
    std::iota(layers.begin(), layers.end(), 0);
    return {
        {"format", "buoy-recording"},
        {"format_version", 1},
        {"complete", true},
        {"model", {{"path", "m.gguf"}, {"name", "large"}, {"shift", false}, {"mask_id", 9}, {"n_head", 32}}},
        {"attention", "full"},
        {"n_prompt", n_positions - n_steps},
        {"n_positions", n_positions},
        {"n_steps", n_steps},
        {"prompt", ""},
        {"recorded", {{"taps", {"attn"}}, {"reduce", "heads"}, {"layers", layers}, {"heads", "all"}, {"steps", steps}}},
        {"regions",
         {{{"name", "user"}, {"spans", {{0, n_positions - n_steps}}}},
          {{"name", "answer"}, {"spans", {{n_positions - n_steps, n_positions}}}}}},
        {"pieces", std::vector<std::string>(n_positions, " a")}};
}

void write_recording(const std::string & path) {
    std::vector<int32_t> rows(n_positions);
    std::iota(rows.begin(), rows.end(), 0);
    PendingFile file(path, false);
    NpzWriter   npz(file);
    for (int64_t step = 0; step < n_steps; step++) {
        const std::string pattern = pattern_member(step % 3);
        const uint32_t    crc     = crc32_of(pattern.data(), pattern.size());
        for (int64_t layer = 0; layer < n_layers; layer++) {
            npz.begin(tap_member_name(Tap::pattern, static_cast<int32_t>(step), static_cast<int32_t>(layer)),
                      pattern.size(), crc);
            npz.write(pattern.data(), pattern.size());
        }
        npz.add(rows_name(static_cast<int32_t>(step)), array_member({n_positions}, rows));
    }
    npz.add("tokens.npy", array_member({n_steps + 1, n_positions},
                                       std::vector<int32_t>(static_cast<size_t>((n_steps + 1) * n_positions), 1)));
    npz.add("unmask_step.npy", array_member({n_positions}, std::vector<int32_t>(n_positions, -1)));
    npz.add("confidence.npy",
            array_member({n_steps, n_positions}, std::vector<float>(static_cast<size_t>(n_steps * n_positions))));
    npz.add("meta.json", meta().dump());
    npz.finish();
    file.commit();
}

// Waits for its end; 0 where the system has no /proc to tell.
uint64_t bytes_read_by(const Program & program) {
    siginfo_t info{};
    waitid(P_PID, static_cast<id_t>(program.pid()), &info, WEXITED | WNOWAIT);
    std::ifstream in("/proc/" + std::to_string(program.pid()) + "/io");
    std::string   name;
    uint64_t      count = 0;
    return in >> name >> count && name == "rchar:" ? count : 0;
}

} // namespace

TEST_CASE("metrics slow: 1 GB is read once, in little memory") {
    const std::string dir = temp_dir();
    if (std::filesystem::space(dir).available < 2ull << 30) {
        skip("less than 2 GiB of disk");
        return;
    }
    const std::string path = dir + "/run.npz";
    write_recording(path);
    const uint64_t size = std::filesystem::file_size(path);
    REQUIRE(size > 1000000000);

    const std::vector<Args> commands = {{"absorption", path},
                                        {"temporal", path, "--png", dir + "/figure.png"},
                                        {"floating", path},
                                        {"sinks", path},
                                        {"depth", path},
                                        {"rollout", path},
                                        {"compare", path, path},
                                        {"export", path, "--format", "csv", "-o", dir + "/x.csv"},
                                        {"export", path, "--format", "npz", "-o", dir + "/x.npz"}};
    for (const Args & args : commands) {
        CAPTURE(args[0]);
        ProgramSpec spec;
        spec.name        = "llama-attention";
        spec.args        = args;
        spec.seconds_max = 300;
        Program             program(spec);
        const uint64_t      n_read = bytes_read_by(program);
        const ProgramResult result = program.finish();
        rusage              usage{};
        getrusage(RUSAGE_CHILDREN, &usage); // of the largest program so far
        CAPTURE(result.err);
        CHECK(result.code == 0);
        CHECK(usage.ru_maxrss < 500000); // KB
        CHECK(static_cast<double>(n_read) < (args[0] == "compare" ? 2.4 : 1.2) * static_cast<double>(size));
        MESSAGE(args[0] << ": " << usage.ru_maxrss / 1000 << " MB resident, " << n_read / 1000000 << " MB read, "
                        << result.seconds << " s");
    }
}
