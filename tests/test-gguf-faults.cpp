#include "io/gguf-file.h"

#include "buoy/error.h"
#include "support/gguf-bytes.h"
#include "support/gguf-faults.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

using namespace buoy;
using namespace buoy::test;

namespace {

// Opens the bytes, which must fail with one clean line that begins with the path; returns what follows.
std::string error_of(const std::string & dir, const std::string & bytes) {
    const std::string path = write_file(dir, "broken.gguf", bytes);
    try {
        GgufFile::open(path);
    } catch (const Error & error) {
        const std::string message = error.what();
        CHECK(error.kind() == ErrorKind::request);
        CHECK(message.rfind(path + ": ", 0) == 0);
        CHECK(message.size() < path.size() + 400);
        CHECK(std::none_of(message.begin(), message.end(), [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; }));
        return message.substr(std::min(message.size(), path.size() + 2));
    }
    return "no error";
}

void check_faults(const std::vector<GgufFault> & faults) {
    const std::string dir = temp_dir();
    for (const GgufFault & fault : faults) {
        CAPTURE(fault.name);
        CHECK(error_of(dir, fault.bytes()) == fault.message);
    }
}

constexpr uint64_t largest = ~uint64_t{0};

using Bytes = GgufBytes;

} // namespace

TEST_CASE("gguf faults: preamble") {
    check_faults(gguf_preamble_faults());
    const auto claims = [](const char * what) { return std::string("the header claims 18446744073709551615 ") + what; };
    const std::string dir   = temp_dir();
    GgufBytes         bytes = gguf_sample();
    bytes.n_pairs           = largest;
    CHECK(error_of(dir, bytes.build()).rfind(claims("keys, the file has room for at most "), 0) == 0);
    bytes           = gguf_sample();
    bytes.n_tensors = largest;
    CHECK(error_of(dir, bytes.build()).rfind(claims("tensors, the file has room for at most "), 0) == 0);
    bytes.n_tensors = uint64_t{1} << 63;
    CHECK(error_of(dir, bytes.build()).find("tensors, the file has room for at most ") != std::string::npos);
}

TEST_CASE("gguf faults: one more or one less than there is") {
    // The reader then takes the next thing for what it is not; that must end in an Error, whichever.
    const std::string dir = temp_dir();
    for (const int delta : {-3, -1, 1, 3}) {
        CAPTURE(delta);
        GgufBytes bytes = gguf_sample();
        bytes.n_pairs   = bytes.pairs.size() + static_cast<uint64_t>(delta);
        CHECK(error_of(dir, bytes.build()) != "no error");
        bytes           = gguf_sample();
        bytes.n_tensors = bytes.tensors.size() + static_cast<uint64_t>(std::max(delta, 1));
        CHECK(error_of(dir, bytes.build()) != "no error");
    }
}

TEST_CASE("gguf faults: keys and values") { check_faults(gguf_value_faults()); }

TEST_CASE("gguf faults: lengths and counts beyond the file") {
    const std::string dir   = temp_dir();
    const auto        tried = [&](const std::function<void(Bytes &)> & breaks) {
        GgufBytes bytes = gguf_sample();
        breaks(bytes);
        return error_of(dir, bytes.build());
    };
    const auto contains = [](const std::string & text, const std::string & part) {
        INFO(text);
        CHECK(text.find(part) != std::string::npos);
    };
    for (const uint64_t length : {uint64_t{1} << 63, largest, largest - 7, uint64_t{1} << 40, uint64_t{100000}}) {
        CAPTURE(length);
        const std::string number = std::to_string(length);
        contains(tried([&](Bytes & b) { b.pair("a.u8").key_length = length; }),
                 "key 1 of 17: a name of " + number + " bytes");
        contains(tried([&](Bytes & b) { b.tensor("norm.weight").name_length = length; }),
                 "tensor 0 of 4: a name of " + number + " bytes");
        contains(tried([&](Bytes & b) { b.pair("general.architecture").value = gguf_string("llama", length); }),
                 "key 'general.architecture': a string of " + number + " bytes, but only ");
        contains(tried([&](Bytes & b) { b.array("x", GGUF_TYPE_STRING, 1, gguf_string("a", length)); }),
                 "key 'x': a string of " + number + " bytes, but only ");
        for (const gguf_type type : {GGUF_TYPE_UINT8, GGUF_TYPE_BOOL, GGUF_TYPE_INT16, GGUF_TYPE_FLOAT32,
                                     GGUF_TYPE_STRING, GGUF_TYPE_UINT64, GGUF_TYPE_FLOAT64}) {
            CAPTURE(type);
            contains(tried([&](Bytes & b) { b.array("x", type, length, "12345678"); }),
                     "key 'x': expected " + number + " items of type " + gguf_type_name(type) + ", but only ");
        }
    }
}

TEST_CASE("gguf faults: alignment") { check_faults(gguf_alignment_faults()); }

TEST_CASE("gguf faults: tensor names, shapes and types") { check_faults(gguf_tensor_faults()); }

TEST_CASE("gguf faults: every removed type is refused") {
    const std::string dir       = temp_dir();
    int               n_removed = 0;
    for (uint32_t type = 0; type < GGML_TYPE_COUNT; ++type) {
        if (ggml_type_size(static_cast<ggml_type>(type)) == 0) {
            CAPTURE(type);
            GgufBytes bytes                  = gguf_sample();
            bytes.tensor("half.weight").type = type;
            CHECK(error_of(dir, bytes.build()).find("was removed from ggml") != std::string::npos);
            ++n_removed;
        }
    }
    CHECK(n_removed >= 2);
}

TEST_CASE("gguf faults: tensor places") { check_faults(gguf_place_faults()); }

TEST_CASE("gguf faults: truncation at every byte") {
    const std::string dir    = temp_dir();
    const std::string sample = gguf_sample().build();
    REQUIRE_NOTHROW(GgufFile::open(write_file(dir, "whole.gguf", sample)));
    for (size_t size = 0; size < sample.size(); ++size) {
        CAPTURE(size);
        CHECK(error_of(dir, sample.substr(0, size)) != "no error");
    }
}

TEST_CASE("gguf faults: only whole padding may be missing at the end") {
    // Not every writer pads the last tensor, so a file may end with its data; a part of the padding means it was cut.
    const std::string dir = temp_dir();
    GgufBytes         bytes;
    bytes.tensor("t", GGML_TYPE_F32, {5});
    const std::string whole = bytes.build();
    for (size_t cut = 0; cut <= 12; ++cut) {
        CAPTURE(cut);
        const std::string path = write_file(dir, "t.gguf", whole.substr(0, whole.size() - cut));
        if (cut == 0 || cut == 12) {
            CHECK_NOTHROW(GgufFile::open(path));
        } else {
            CHECK_THROWS_WITH_AS(GgufFile::open(path),
                                 doctest::Contains("tensor 't': the file is truncated: expected padding"), Error);
        }
    }
}

#if defined(__linux__)
TEST_CASE("gguf faults: no memory for the header is an Error that says how much it needs") {
    if (is_sanitized()) {
        MESSAGE("not here: AddressSanitizer reserves terabytes of addresses");
        return;
    }
    const std::string dir = temp_dir();
    GgufBytes         bytes;
    bytes.pairs.push_back({"x", GGUF_TYPE_STRING, le(uint64_t{1} << 29), std::nullopt});
    const std::string path = write_file(dir, "sparse.gguf", bytes.header());
    std::filesystem::resize_file(path, uint64_t{1} << 30);

    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit before = {};
    REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
    rlimit tight   = before;
    tight.rlim_cur = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + (uint64_t{64} << 20);
    REQUIRE(setrlimit(RLIMIT_AS, &tight) == 0);
    std::string message = "no error";
    try {
        GgufFile::open(path);
    } catch (const Error & error) {
        message = error.what();
    }
    REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
    CHECK(message == path + ": out of memory, the header needs 536870957 bytes");
}
#endif

TEST_CASE("gguf faults: a header is not read beyond its limit") {
    // A sparse file can claim a string of any size at no cost.
    const std::string dir = temp_dir();
    GgufBytes         bytes;
    bytes.pairs.push_back({"x", GGUF_TYPE_STRING, le(uint64_t{1} << 31), std::nullopt});
    const std::string path = write_file(dir, "sparse.gguf", bytes.header());
    std::filesystem::resize_file(path, uint64_t{1} << 32);
    CHECK_THROWS_WITH_AS(GgufFile::open(path),
                         doctest::Contains("key 'x': a string of 2147483648 bytes, expected at most 1073741824"),
                         Error);
}
