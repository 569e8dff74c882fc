// Archives that are small and unpack to much: memory is asked for only where the file and its meta.json make it plausible.

#include "buoy/error.h"
#include "io/npy.h"
#include "io/npz-reader.h"
#include "support/gguf-bytes.h"
#include "support/memory-limit.h"
#include "support/paths.h"
#include "support/recording.h"
#include "support/run-program.h"
#include "support/zip-bytes.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <filesystem>

using namespace buoy;
using namespace buoy::test;

namespace {

std::string array(NpyType type, const std::vector<int64_t> & shape, size_t n_bytes) {
    return npy_header(type, shape) + std::string(n_bytes, '\0');
}

std::string error_of(const std::string & bytes) {
    const std::string path = write_file(temp_dir(), "x.npz", bytes);
    try {
        const NpzReader reader = NpzReader::open(path);
        for (const NpzMember & member : reader.members()) {
            NpyHeader header;
            reader.read_floats(member, header);
        }
    } catch (const Error & error) {
        return error.what();
    }
    return "accepted";
}

// A recording of two steps whose pattern has the shape.
struct Recorded {
    int                    n_positions = 8;
    std::vector<int64_t>   pattern     = {4, 8, 8};
    NpyType                type        = NpyType::f2;
    std::vector<ZipMember> more;
    nlohmann::json         meta;

    Recorded() {
        meta = {{"format", "buoy-recording"},
                {"format_version", 1},
                {"complete", true},
                {"model",
                 {{"name", "m"},
                  {"path", "m.gguf"},
                  {"arch", "llada"},
                  {"n_layer", 2},
                  {"n_head", 4},
                  {"mask_id", 3},
                  {"shift", false},
                  {"block_length", nullptr}}},
                {"attention", "full"},
                {"prompt", "p"},
                {"n_prompt", 2},
                {"n_steps", 1},
                {"recorded",
                 {{"taps", {"attn"}},
                  {"reduce", "none"},
                  {"dtype", "f16"},
                  {"steps", {0}},
                  {"layers", {0}},
                  {"heads", "all"},
                  {"rows", "all"}}},
                {"regions", nlohmann::json::array()}};
    }

    std::string bytes() {
        const auto T        = static_cast<size_t>(n_positions);
        meta["n_positions"] = n_positions;
        meta["pieces"]      = std::vector<std::string>(T, "a");
        std::string rows    = npy_header(NpyType::i4, {n_positions});
        for (int32_t i = 0; i < n_positions; i++) {
            rows += le(i);
        }
        size_t n = npy_item_size(type);
        for (const int64_t extent : pattern) {
            n *= static_cast<size_t>(extent);
        }
        std::vector<ZipMember> members = {
            {"meta.json", meta.dump(), {}},
            {"tokens.npy", array(NpyType::i4, {2, n_positions}, 2 * T * 4), {}},
            {"unmask_step.npy", array(NpyType::i4, {n_positions}, T * 4), {}},
            {"confidence.npy", array(NpyType::f4, {1, n_positions}, T * 4), {}},
            {"rows/step_0000.npy", rows, {}},
            {"attn/step_0000/layer_00.npy", array(type, pattern, n), {}},
        };
        members.insert(members.end(), more.begin(), more.end());
        return zip_bytes(members);
    }
};

ProgramResult attention(const std::string & command, const std::string & bytes) {
    ProgramSpec spec;
    spec.name = "llama-attention";
    spec.args = {command, write_file(temp_dir(), "run.npz", bytes)};
    const MemoryLimit limit(uint64_t{2} << 30); // with the libraries' own
    return run_program(spec);
}

} // namespace

TEST_CASE("npz: an archive that unpacks to far more than it has is refused") {
    const std::string small = zip_bytes({{"a.npy", array(NpyType::f4, {1000, 1000}, 4000000), {}}});
    CHECK(small.size() < 10000);
    CHECK(error_of(small) == "accepted");
    std::vector<ZipMember> many;
    for (int i = 0; i < 20; i++) {
        many.push_back({"a" + std::to_string(i) + ".npy", array(NpyType::f4, {4, 1000, 1000}, 16000000), {}});
    }
    const std::string message = error_of(zip_bytes(many));
    CHECK(message.find("x.npz: its ") != std::string::npos);
    CHECK(message.find(" bytes claim to unpack to 320002560, expected at most 268435456") != std::string::npos);
}

TEST_CASE("npz: members that lie about their size") {
    const std::string data = array(NpyType::f4, {100}, 400);
    CHECK(error_of(zip_bytes({{"a.npy", data, 1000}})).find("the array needs 400 bytes") != std::string::npos);
    CHECK(error_of(zip_bytes({{"a.npy", data, 200}})).find("the array needs 400 bytes") != std::string::npos);
    CHECK(error_of(zip_bytes({{"a.npy", data, 0xfffffff0}})).find("claims more data than it can hold") !=
          std::string::npos);
    const std::string huge = npy_header(NpyType::f4, {100000, 100000});
    CHECK(error_of(zip_bytes({{"a.npy", huge, {}}})).find("the array needs 40000000000 bytes, the member has 0") !=
          std::string::npos);
}

TEST_CASE("llama-attention: shapes are compared with meta.json before memory is taken") {
    Recorded good;
    CHECK(attention("sinks", good.bytes()).code == 0);

    for (const char * command : {"sinks", "absorption", "temporal", "report"}) {
        CAPTURE(command);
        Recorded wide; // 200 MB, which the archive's own limit lets pass
        wide.pattern               = {100, 1000, 1000};
        const ProgramResult result = attention(command, wide.bytes());
        CHECK_FALSE(result.timed_out);
        CHECK(result.code == 1);
        CHECK(result.is_one_line());
    }
    Recorded many_rows;
    many_rows.more                      = {{"rows/step_0001.npy", array(NpyType::i4, {50000000}, 200000000), {}}};
    many_rows.meta["n_steps"]           = 2;
    many_rows.meta["recorded"]["steps"] = {0, 1};
    const ProgramResult result          = attention("sinks", many_rows.bytes());
    CHECK(result.code == 1);
    CHECK(result.is_one_line());
}

TEST_CASE("llama-attention: a small file never takes gigabytes") {
    Recorded fits; // its shapes fit: 6,000 positions, 72 MB a head
    fits.n_positions        = 6000;
    fits.pattern            = {6, 6000, 6000};
    const std::string bytes = fits.bytes();
    CHECK(bytes.size() < 2000000);
    const ProgramResult result = attention("sinks", bytes);
    CAPTURE(result.err);
    CHECK(result.code == 1); // 432 MB of a file of 0.5 MB
    CHECK(result.is_one_line());
    CHECK(result.err.find("claim to unpack to") != std::string::npos);
}

TEST_CASE("llama-attention: many members, deep and long meta.json") {
    Recorded recorded;
    for (int i = 0; i < 40000; i++) {
        recorded.more.push_back({"m" + std::to_string(i), "x", {}});
    }
    CHECK(attention("info", recorded.bytes()).code == 0);
    std::string nested;
    for (int i = 0; i < 3000000; i++) {
        nested += "[],";
    }
    std::string members;
    for (int i = 0; i < 300000; i++) {
        members += "\"k" + std::to_string(i) + "\":0,";
    }
    for (const std::string & part : {"\"x\":[" + nested + "0],", members}) {
        Recorded    long_meta;
        std::string text = long_meta.bytes(); // fills in meta
        text             = long_meta.meta.dump();
        text.insert(1, part);
        const std::string bytes = zip_bytes({{"meta.json", text, {}}});
        CHECK(bytes.size() < 2000000);
        const ProgramResult result = attention("info", bytes);
        CHECK_FALSE(result.timed_out);
        CHECK(result.code <= 1);
    }
}
