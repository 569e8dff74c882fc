#include "support/gguf-faults.h"

#include "buoy/message.h"

#include <limits>

namespace buoy::test {

namespace {

constexpr uint64_t largest = ~uint64_t{0};

using Bytes = GgufBytes;

} // namespace

std::string GgufFault::bytes() const {
    GgufBytes sample = gguf_sample();
    breaks(sample);
    return sample.build();
}

std::vector<GgufFault> gguf_preamble_faults() {
    return {
        {"bad magic", [](Bytes & b) { b.magic = "GGML"; }, "not a GGUF file: expected magic 'GGUF', found 'GGML'"},
        {"raw bytes as magic", [](Bytes & b) { b.magic = "\x1b[2J"; },
         "not a GGUF file: expected magic 'GGUF', found '\\x1b[2J'"},
        {"version 0", [](Bytes & b) { b.version = 0; }, "expected GGUF version 2 or 3, found 0"},
        {"version 1", [](Bytes & b) { b.version = 1; }, "expected GGUF version 2 or 3, found 1"},
        {"future version", [](Bytes & b) { b.version = 4; }, "expected GGUF version 2 or 3, found 4"},
        {"largest version", [](Bytes & b) { b.version = ~0u; }, "expected GGUF version 2 or 3, found 4294967295"},
        {"byte-swapped", [](Bytes & b) { b.version = 0x03000000; },
         "this is a big-endian GGUF file, only little-endian ones are supported (version field 50331648)"},
    };
}

std::vector<GgufFault> gguf_value_faults() {
    return {
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
    };
}

std::vector<GgufFault> gguf_alignment_faults() {
    const auto aligned = [](int64_t alignment) {
        return [alignment](Bytes & b) { b.number("general.alignment", GGUF_TYPE_INT64, alignment); };
    };
    const auto message = [](const char * found) {
        return std::string("key 'general.alignment': expected a power of two from 8 to 1048576, found ") + found;
    };
    return {
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
    };
}

std::vector<GgufFault> gguf_tensor_faults() {
    const int64_t big = int64_t{1} << 62;
    return {
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
    };
}

std::vector<GgufFault> gguf_place_faults() {
    const std::string sample = gguf_sample().build();
    const uint64_t    data   = sample.size() - (32 + 96 + 160 + 128); // the four tensors, padded
    const auto        at     = [](const char * name, uint64_t offset) {
        return [=](Bytes & b) { b.tensor(name).offset = offset; };
    };
    return {
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
    };
}

std::vector<GgufFault> gguf_faults() {
    std::vector<GgufFault> all;
    for (const auto & group : {gguf_preamble_faults(), gguf_value_faults(), gguf_alignment_faults(),
                               gguf_tensor_faults(), gguf_place_faults()}) {
        all.insert(all.end(), group.begin(), group.end());
    }
    return all;
}

} // namespace buoy::test
