#include "io/gguf-file.h"

#include "buoy/error.h"
#include "support/gguf-bytes.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
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

struct Fault {
    std::string                      name;
    std::function<void(GgufBytes &)> breaks;
    std::string                      message;
};

void check_faults(const std::vector<Fault> & faults) {
    const std::string dir = temp_dir();
    for (const Fault & fault : faults) {
        CAPTURE(fault.name);
        GgufBytes bytes = gguf_sample();
        fault.breaks(bytes);
        CHECK(error_of(dir, bytes.build()) == fault.message);
    }
}

constexpr uint64_t largest = ~uint64_t{0};

using Bytes = GgufBytes;

} // namespace

TEST_CASE("gguf faults: preamble") {
    check_faults({
        {"bad magic", [](Bytes & b) { b.magic = "GGML"; }, "not a GGUF file: expected magic 'GGUF', found 'GGML'"},
        {"raw bytes as magic", [](Bytes & b) { b.magic = "\x1b[2J"; },
         "not a GGUF file: expected magic 'GGUF', found '\\x1b[2J'"},
        {"version 0", [](Bytes & b) { b.version = 0; }, "expected GGUF version 2 or 3, found 0"},
        {"version 1", [](Bytes & b) { b.version = 1; }, "expected GGUF version 2 or 3, found 1"},
        {"future version", [](Bytes & b) { b.version = 4; }, "expected GGUF version 2 or 3, found 4"},
        {"largest version", [](Bytes & b) { b.version = ~0u; }, "expected GGUF version 2 or 3, found 4294967295"},
        {"byte-swapped", [](Bytes & b) { b.version = 0x03000000; },
         "this is a big-endian GGUF file, only little-endian ones are supported (version field 50331648)"},
    });
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

TEST_CASE("gguf faults: keys and values") {
    check_faults({
        {"empty key", [](Bytes & b) { b.pair("a.u8").key = ""; }, "key 1 of 17: the key is empty"},
        {"duplicate key", [](Bytes & b) { b.pair("a.i8").key = "a.u8"; }, "key 'a.u8': the key appears twice"},
        {"key longer than the format allows", [](Bytes & b) { b.pair("a.u8").key = std::string(65536, 'k'); },
         "key 1 of 17: a name of 65536 bytes, expected at most 65535"},
        {"unknown value type", [](Bytes & b) { b.pair("a.u8").type = 13; },
         "key 'a.u8': expected a value type below 13, found 13"},
        {"largest value type", [](Bytes & b) { b.pair("a.u8").type = ~0u; },
         "key 'a.u8': expected a value type below 13, found 4294967295"},
        {"unknown item type", [](Bytes & b) { b.array("x", 77, 1, "0000"); },
         "key 'x': expected a value type below 13, found 77"},
        {"nested array", [](Bytes & b) { b.array("x", GGUF_TYPE_ARRAY, 1, le(uint32_t{4}) + le(uint64_t{0})); },
         "key 'x': arrays of arrays are not supported"},
        {"bool of 2", [](Bytes & b) { b.pair("a.bool").value = le(uint8_t{2}); },
         "key 'a.bool': expected a bool, 0 or 1, found 2"},
        {"bool of 255 in an array", [](Bytes & b) { b.array("x", GGUF_TYPE_BOOL, 3, std::string("\1\0\xff", 3)); },
         "key 'x': expected a bool, 0 or 1, found 255"},
        {"control characters in a key",
         [](Bytes & b) {
             b.pair("a.u8").key = "\x1b[31m\n\xff";
             b.pair("a.i8").key = "\x1b[31m\n\xff";
         },
         "key '\\x1b[31m\\x0a\\xff': the key appears twice"},
    });
}

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

TEST_CASE("gguf faults: alignment") {
    const auto aligned = [](int64_t alignment) {
        return [alignment](Bytes & b) { b.number("general.alignment", GGUF_TYPE_INT64, alignment); };
    };
    const auto message = [](const char * found) {
        return std::string("key 'general.alignment': expected a power of two from 8 to 1048576, found ") + found;
    };
    check_faults({
        {"0", aligned(0), message("0")},
        {"3", aligned(3), message("3")},
        {"4, less than a double needs", aligned(4), message("4")},
        {"48", aligned(48), message("48")},
        {"2^31", aligned(int64_t{1} << 31), message("2147483648")},
        {"negative", aligned(-32), message("-32")},
        {"least", aligned(std::numeric_limits<int64_t>::min()), message("-9223372036854775808")},
        {"of the wrong type", [](Bytes & b) { b.text("general.alignment", "32"); },
         "key 'general.alignment': expected an integer, found str"},
        {"larger than the file", aligned(1 << 20),
         "tensor 'norm.weight': the file is truncated: expected the data to end at 1048604, the file has 1184 bytes"},
    });
}

TEST_CASE("gguf faults: tensor names, shapes and types") {
    const int64_t big = int64_t{1} << 62;
    check_faults({
        {"empty name", [](Bytes & b) { b.tensor("half.weight").name = ""; }, "tensor 1 of 4: the name is empty"},
        {"name of 64 bytes", [](Bytes & b) { b.tensor("half.weight").name = std::string(64, 'n'); },
         "tensor 1 of 4: a name of 64 bytes, expected at most 63"},
        {"zero byte in a name", [](Bytes & b) { b.tensor("half.weight").name = std::string("a\0b", 3); },
         "tensor 'a\\x00b': the name contains a zero byte"},
        {"duplicate", [](Bytes & b) { b.tensor("half.weight").name = "norm.weight"; },
         "tensor 'norm.weight': the tensor appears twice"},
        {"5 dimensions",
         [](Bytes & b) {
             b.tensor("half.weight").dims = {16, 3, 1, 1, 1};
         },
         "tensor 'half.weight': expected at most 4 dimensions, found 5"},
        {"2^32 - 1 dimensions", [](Bytes & b) { b.tensor("half.weight").n_dims = ~0u; },
         "tensor 'half.weight': expected at most 4 dimensions, found 4294967295"},
        {"zero dimension",
         [](Bytes & b) {
             b.tensor("half.weight").dims = {16, 0};
         },
         "tensor 'half.weight': dimension 1: expected at least 1, found 0"},
        {"negative dimension",
         [](Bytes & b) {
             b.tensor("half.weight").dims = {-16, 3};
         },
         "tensor 'half.weight': dimension 0: expected at least 1, found -16"},
        {"element count beyond 2^63",
         [=](Bytes & b) {
             b.tensor("half.weight").dims = {16, big, 2, 2};
         },
         "tensor 'half.weight': the number of elements overflows at dimension 1 of 4611686018427387904"},
        {"element count that wraps to 0",
         [](Bytes & b) {
             b.tensor("half.weight").dims = {int64_t{1} << 32, int64_t{1} << 32};
         },
         "tensor 'half.weight': the number of elements overflows at dimension 1 of 4294967296"},
        {"bytes that wrap", [=](Bytes & b) { b.tensor("norm.weight").dims = {big}; },
         "tensor 'norm.weight': the size in bytes overflows: 4611686018427387904 blocks of 4"},
        {"row of half a block",
         [](Bytes & b) {
             b.tensor("quant.weight").dims = {48, 2};
         },
         "tensor 'quant.weight': type q8_0 needs rows of a multiple of 32, found 48"},
        {"removed type", [](Bytes & b) { b.tensor("half.weight").type = 4; },
         "tensor 'half.weight': tensor type 4 was removed from ggml, convert the model again"},
        {"unknown type", [](Bytes & b) { b.tensor("half.weight").type = GGML_TYPE_COUNT; },
         concat("tensor 'half.weight': expected a tensor type below ", static_cast<int>(GGML_TYPE_COUNT), ", found ",
                static_cast<int>(GGML_TYPE_COUNT))},
        {"largest type", [](Bytes & b) { b.tensor("half.weight").type = ~0u; },
         concat("tensor 'half.weight': expected a tensor type below ", static_cast<int>(GGML_TYPE_COUNT),
                ", found 4294967295")},
    });
}

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

TEST_CASE("gguf faults: tensor places") {
    const std::string sample = gguf_sample().build();
    const uint64_t    data   = sample.size() - (32 + 96 + 160 + 128); // the four tensors, padded
    const auto        at     = [](const char * name, uint64_t offset) {
        return [=](Bytes & b) { b.tensor(name).offset = offset; };
    };
    check_faults({
        {"unaligned", at("half.weight", 36),
         "tensor 'half.weight': expected an offset that is a multiple of 32, found 36"},
        {"outside the file", at("half.weight", 1 << 20),
         concat("tensor 'half.weight': the file is truncated: expected the data to end at ", data + (1 << 20) + 96,
                ", the file has ", sample.size(), " bytes")},
        {"offset + size wraps", at("half.weight", largest - 31),
         concat("tensor 'half.weight': offset 18446744073709551584 plus 96 bytes overflows")},
        {"size + padding wraps",
         [=](Bytes & b) {
             // ends within the last 31 bytes of the number range
             b.tensor("norm.weight").dims   = {(int64_t{1} << 62) - 1};
             b.tensor("norm.weight").offset = 0;
         },
         "tensor 'norm.weight': offset 0 plus 18446744073709551612 bytes overflows"},
        {"same place twice", at("half.weight", 0),
         concat("tensor 'half.weight': starts at ", data, " and overlaps 'norm.weight', which ends at ", data + 28)},
        {"overlapping", at("quant.weight", 96),
         concat("tensor 'quant.weight': starts at ", data + 96, " and overlaps 'half.weight', which ends at ",
                data + 128)},
        {"larger than the file",
         [](Bytes & b) {
             b.tensor("cube.weight").dims = {8, 2, 2, 1 << 20};
         },
         concat("tensor 'cube.weight': the file is truncated: expected the data to end at ", data + 288 + (128u << 20),
                ", the file has ", sample.size(), " bytes")},
    });
}

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

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) // which reserves terabytes of addresses
TEST_CASE("gguf faults: no memory for the header is an Error that says how much it needs") {
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
