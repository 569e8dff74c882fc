// What must not hurt while recording: limits, two runs, a full disk, interruptions, kill -9.

#include "buoy/message.h"
#include "buoy/record.h"
#include "support/random-context.h"

#include "buoy/error.h"
#include "io/npz-reader.h"
#include "observe/write-queue.h"
#include "support/gguf-bytes.h"
#include "support/paths.h"
#include "support/recording.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char ** environ;

using namespace buoy;
using namespace buoy::test;

namespace fs = std::filesystem;

namespace {

size_t count_files(const std::string & dir) {
    return static_cast<size_t>(std::distance(fs::directory_iterator(dir), fs::directory_iterator()));
}

nlohmann::json read_meta(const NpzReader & file) {
    return nlohmann::json::parse(file.read_text(file.get("meta.json")));
}

// Every member of a recording can be read; its meta.json.
nlohmann::json check_whole(const std::string & path) {
    const NpzReader file = NpzReader::open(path);
    for (const NpzMember & member : file.members()) {
        NpyHeader header;
        if (member.name != "meta.json") {
            const size_t n = file.read_floats(member, header).size();
            REQUIRE(n == header.n_elements());
        }
    }
    return read_meta(file);
}

// Runs with a recorder attached and a failure or an interruption in the middle; finish() as a program would call it.
template <typename Change>
std::string record_changed(RecordingBench & bench, const RecordParams & record, Change change) {
    std::string    error;
    Recorder       recorder(record, bench.context->info(), bench.vocab, bench.recorded_run());
    GenerateParams params = bench.params;
    change(params);
    recorder.attach(params);
    try {
        generate(*bench.context, bench.prompt, params);
    } catch (const std::exception & e) {
        error = e.what();
    }
    recorder.finish();
    return error;
}

} // namespace

TEST_CASE("recorder: an index that is not there is named") {
    RecordingBench bench;
    const auto     refused = [&](const std::function<void(RecordParams &)> & change, const std::string & words) {
        RecordParams record = record_params(temp_dir() + "/run.npz");
        change(record);
        CAPTURE(words);
        CHECK_THROWS_WITH_AS(bench.record(record), doctest::Contains(words.c_str()), Error);
        CHECK_FALSE(fs::exists(record.path + ".part"));
    };
    refused([](RecordParams & o) { o.layers = {0, 2}; }, "no layer 2, expected 0 to 1");
    refused([](RecordParams & o) { o.heads = {-1}; }, "no head -1, expected 0 to 3");
    refused([](RecordParams & o) { o.steps = {10}; }, "no step 10, expected 0 to 9");
    refused([](RecordParams & o) { o.rows = {100}; }, "no row 100, expected 0 to ");
    refused([](RecordParams & o) { o.taps = {static_cast<Tap>(9)}; }, "no tap 9, expected 0 to 5");
    refused([](RecordParams & o) { o.taps.clear(); }, "no tap");
    refused([](RecordParams & o) { o.reduce = TapReduce::regions; }, "at least one region");
    refused([](RecordParams & o) { o.regions = {{"end", {{0, 1000}}}}; }, "region 'end' spans positions 0 to 999");
}

TEST_CASE("recorder: targets") {
    RecordingBench    bench;
    const std::string dir = temp_dir();
    bench.record(record_params(dir + "/run.npz"));
    CHECK_THROWS_WITH_AS(bench.record(record_params(dir + "/run.npz")), doctest::Contains("`force`"), Error);
    fs::create_symlink("run.npz", dir + "/link.npz");
    CHECK_THROWS_WITH_AS(bench.record(record_params(dir + "/link.npz")), doctest::Contains("symbolic link"), Error);
    CHECK_THROWS_WITH_AS(bench.record(record_params(dir + "/no/run.npz")), doctest::Contains("No such file"), Error);

    const RecordParams record = record_params(dir + "/two.npz");
    Recorder           first(record, bench.context->info(), bench.vocab, bench.recorded_run());
    CHECK_THROWS_WITH_AS(bench.record(record), doctest::Contains("another run is writing this file"), Error);
}

TEST_CASE("recorder: a stopped run is complete up to its last step") {
    RecordingBench     bench;
    const RecordParams record = record_params(temp_dir() + "/run.npz");
    const std::string  error  = record_changed(bench, record, [](GenerateParams & params) {
        params.on_step = [](const StepReport & step, const std::vector<int32_t> &) { return step.step < 3; };
    });
    CHECK(error.empty());
    const nlohmann::json meta = check_whole(record.path);
    CHECK(meta["complete"] == false);
    CHECK(meta["n_steps"] == 4);
    const NpzReader file = NpzReader::open(record.path);
    CHECK(file.find("attn/step_0003/layer_01") != nullptr);
    NpyHeader  header;
    const auto unmask = file.read_ints(file.get("unmask_step"), header);
    CHECK(std::count(unmask.begin(), unmask.end(), -2) == 6); // never written
}

TEST_CASE("recorder: a step that fails is cut off") {
    RecordingBench bench;
    const auto     failing = [](int32_t at) {
        return [at](GenerateParams & params) {
            params.on_forward = [at](int32_t step, ForwardRequest & request) {
                if (step == at) { // in the middle of the pass: the first layer has been handed over
                    observer(request).sink = [sink = observer(request).sink](const TapEvent & event) {
                        if (event.point.layer == 1) {
                            fail_runtime("the device is gone");
                        }
                        sink(event);
                    };
                }
            };
        };
    };
    const RecordParams record = record_params(temp_dir() + "/run.npz");
    CHECK(record_changed(bench, record, failing(4)) == "the device is gone");
    const nlohmann::json meta = check_whole(record.path);
    CHECK(meta["complete"] == false);
    CHECK(meta["n_steps"] == 4);
    CHECK(meta["recorded"]["steps"] == std::vector<int>{0, 1, 2, 3});
    const NpzReader file = NpzReader::open(record.path);
    CHECK(file.find("attn/step_0003/layer_01") != nullptr);
    CHECK(file.find("attn/step_0004/layer_00") == nullptr);

    RecordParams none = record_params(temp_dir() + "/run.npz");
    std::string  said;
    none.log = [&](LogLevel, const std::string & text) { said += text; };
    CHECK(record_changed(bench, none, failing(0)) == "the device is gone");
    CHECK(said.find("no step was completed") != std::string::npos);
    CHECK_FALSE(fs::exists(none.path));
    CHECK_FALSE(fs::exists(none.path + ".part"));
}

TEST_CASE("recorder: dropped without an end it leaves nothing") {
    RecordingBench    bench;
    const std::string dir = temp_dir();
    {
        Recorder recorder(record_params(dir + "/run.npz"), bench.context->info(), bench.vocab, bench.recorded_run());
        GenerateParams params = bench.params;
        recorder.attach(params);
        generate(*bench.context, bench.prompt, params);
        CHECK(count_files(dir) == 1);
    }
    CHECK(count_files(dir) == 0);
}

namespace {

// Records where there is no room for it; true if that failed as it should and left nothing.
bool fails_cleanly(RecordingBench & bench, const std::string & dir) {
    bench.params.threshold = 0.9f; // open-ended: the room is not checked beforehand
    ErrorKind kind         = ErrorKind::request;
    {
        Recorder recorder(record_params(dir + "/run.npz"), bench.context->info(), bench.vocab, bench.recorded_run());
        GenerateParams params = bench.params;
        recorder.attach(params);
        try {
            generate(*bench.context, bench.prompt, params);
            recorder.finish();
        } catch (const Error & error) {
            kind = error.kind();
        }
    }
    return kind == ErrorKind::runtime && count_files(dir) == 0;
}

} // namespace

TEST_CASE("recorder: a file that may not grow leaves nothing") {
    RecordingBench    bench;
    const std::string dir  = temp_dir();
    rlimit            kept = {};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &kept) == 0);
    const auto before = std::signal(SIGXFSZ, SIG_IGN);
    rlimit     small  = kept;
    small.rlim_cur    = 60000;
    setrlimit(RLIMIT_FSIZE, &small);
    const bool clean = fails_cleanly(bench, dir);
    setrlimit(RLIMIT_FSIZE, &kept);
    std::signal(SIGXFSZ, before);
    CHECK(clean);
}

TEST_CASE("recorder: a full disk leaves nothing") {
    const std::string dir = temp_dir();
    if (std::system(("mount -t tmpfs -o size=64k tmpfs '" + dir + "' 2>/dev/null").c_str()) != 0) {
        MESSAGE("tmpfs can't be mounted here, skipped");
        return;
    }
    RecordingBench bench;
    const bool     clean = fails_cleanly(bench, dir);
    bench.params.threshold.reset(); // a fixed schedule is refused before anything is computed
    bool early = false;
    try {
        bench.record(record_params(dir + "/run.npz"));
    } catch (const Error & error) {
        early =
            error.kind() == ErrorKind::runtime && std::string(error.what()).find("the disk has") != std::string::npos;
    }
    const size_t n_left = count_files(dir);
    REQUIRE(std::system(("umount '" + dir + "'").c_str()) == 0);
    CHECK(clean);
    CHECK(early);
    CHECK(n_left == 0);
}

TEST_CASE("write queue: what waits is bounded, also by a writer that is slow") {
    const std::string dir = temp_dir();
    PendingFile       file(dir + "/x.npz", false);
    NpzWriter         npz(file);
    uint64_t          peak = 0;
    {
        WriteQueue        queue(npz, 4 << 20);
        const std::string data(1 << 20, 'x');
        const auto        copy = [](const std::string & bytes) { return [&bytes] { return bytes; }; };
        for (int i = 0; i < 10; i++) { // room for what could not be made is given back, or the rest would wait forever
            CHECK_THROWS_AS(queue.push("none", data.size(), []() -> std::string { throw std::bad_alloc(); }),
                            std::bad_alloc);
        }
        for (int i = 0; i < 200; i++) {
            queue.push("m" + std::to_string(i), data.size(), copy(data));
        }
        queue.keep();
        queue.drain();
        peak = queue.peak();
        CHECK(peak <= 4 << 20);
        const std::string large(10 << 20, 'y'); // larger than the limit: alone
        queue.push("large", large.size(), copy(large));
        queue.push("cut", data.size(), copy(data));
        queue.cut();
        queue.drain();
        CHECK(queue.peak() == 10 << 20);
    }
    MESSAGE("at most ", peak >> 20, " MiB waited");
    npz.finish();
    file.commit();
    CHECK(NpzReader::open(dir + "/x.npz").members().size() == 200);
}

namespace {

constexpr const char * driver_target = "BUOY_TEST_RECORDING";

pid_t spawn_driver(const std::string & target) {
    setenv(driver_target, target.c_str(), 1);
    std::string         self = fs::read_symlink("/proc/self/exe").string();
    std::string         only = "--test-case=recorder driver", all = "--no-skip", quiet = "--minimal";
    std::vector<char *> args = {self.data(), only.data(), all.data(), quiet.data(), nullptr};
    pid_t               pid  = -1;
    REQUIRE(posix_spawn(&pid, self.c_str(), nullptr, nullptr, args.data(), environ) == 0);
    unsetenv(driver_target);
    return pid;
}

} // namespace

// Records one run after the other onto the same target until it is killed.
TEST_CASE("recorder driver" * doctest::skip()) {
    const char * target = std::getenv(driver_target);
    REQUIRE(target != nullptr);
    RecordingBench bench;
    RecordParams   record = record_params(target);
    record.force          = true;
    for (;;) {
        bench.record(record);
    }
}

TEST_CASE("recorder: killed at any moment, the file is whole or absent") {
    if (!fs::exists("/proc/self/exe")) {
        MESSAGE("no /proc, skipped");
        return;
    }
    const std::string dir    = temp_dir();
    const std::string target = dir + "/run.npz";
    int               n_part = 0, n_whole = 0;
    for (int i = 0; i < 20; i++) {
        fs::remove(target);
        const pid_t pid = spawn_driver(target);
        for (int wait = 0; wait < 20000 && !fs::exists(target + ".part") && !fs::exists(target); wait++) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        std::this_thread::sleep_for(std::chrono::microseconds(i * i * 1500)); // the first run, its end, the next ones
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
        n_part += fs::exists(target + ".part") ? 1 : 0;
        if (fs::exists(target)) {
            n_whole++;
            CHECK(check_whole(target)["complete"] == true);
        }
    }
    MESSAGE(n_part, " of 20 left a temporary, ", n_whole, " a whole file");
    CHECK(n_part > 0);

    // what the last ones left does not stand in the way
    write_file(dir, "run.npz.part", "half of a recording");
    RecordingBench bench;
    std::string    said;
    RecordParams   record = record_params(target);
    record.force          = true;
    record.log            = [&](LogLevel level, const std::string & text) {
        CHECK(level == LogLevel::notice);
        said += text;
    };
    bench.record(record);
    CHECK(said == target + ".part: replaced this file, which a killed run had left behind");
    CHECK(check_whole(target)["complete"] == true);
    CHECK(count_files(dir) == 1);
}
