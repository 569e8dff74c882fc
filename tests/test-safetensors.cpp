#include "io/safetensors.h"

#include "buoy/error.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/text.h"

#include <doctest/doctest.h>

#include <filesystem>

using namespace buoy;
using namespace buoy::test;

namespace {

// The message of the Error that opening these bytes gives; "" if it opens.
std::string open_error(const std::string & bytes) {
    static const std::string path = temp_dir() + "/model.safetensors";
    write_file(path, bytes);
    try {
        Safetensors::open_file(path);
        return "";
    } catch (const Error & e) {
        CHECK(std::string(e.what()).find('\n') == std::string::npos);
        CHECK(std::string(e.what()).find(path) == 0);
        return e.what();
    }
}

std::string header_error(const std::string & header, size_t n_data = 8) {
    return open_error(safetensors_bytes(header, std::string(n_data, '\0')));
}

void check_message(const std::string & message, const std::string & part) {
    CAPTURE(message);
    CHECK(contains(message, part));
}

std::string dir_error(const std::string & dir) {
    try {
        Safetensors::open_dir(dir);
        return "";
    } catch (const Error & e) {
        return e.what();
    }
}

} // namespace

TEST_CASE("safetensors: tensors, shapes and bytes of a good file") {
    const std::string path = temp_dir() + "/a.safetensors";
    write_file(path, safetensors_bytes({{"a", {2, 2}, {1, 2, 3, 4}}, {"b", {3}, {5, 6, 7}, "BF16"}}));
    const Safetensors file = Safetensors::open_file(path);
    REQUIRE(file.tensors().size() == 2);
    const SafetensorsTensor * a = file.find("a");
    REQUIRE(a != nullptr);
    CHECK(a->shape == std::vector<int64_t>{2, 2});
    CHECK(a->n_elements() == 4);
    float values[2];
    file.read(*a, 8, values, 8);
    CHECK(values[0] == 3);
    CHECK(values[1] == 4);
    CHECK_THROWS_AS(file.read(*a, 12, values, 8), Error);
    CHECK(file.find("c") == nullptr);
    CHECK(file.find("b")->dtype == "BF16");
}

TEST_CASE("safetensors: broken headers") {
    check_message(open_error("abc"), "too few");
    check_message(open_error(std::string(8, '\xff')), "header of 18446744073709551615 bytes");
    check_message(open_error(std::string("\x01\xe1\xf5\x05\0\0\0\0", 8)), "expected at most 100000000");
    check_message(open_error(std::string("\x40\0\0\0\0\0\0\0{}", 10)), "header of 64 bytes");
    check_message(open_error(std::string(8, '\0')), "does not begin with '{'");
    check_message(header_error("[1]"), "does not begin with '{'");
    check_message(header_error("{\"a\":"), "not valid JSON");
    check_message(header_error("{\"a\xff\":1}"), "not valid JSON");
    check_message(header_error("{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}"), "nested deeper");
    check_message(header_error(R"({"a":1})"), "expected an object");
    check_message(header_error(R"({"a":{"dtype":"F32","shape":[2]}})"), "no 'data_offsets'");
    check_message(header_error(R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})"), "dtype is number");
    check_message(header_error(R"({"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})"), "unknown dtype 'F31'");
    check_message(header_error(R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})"), "shape is not a list");
    check_message(header_error(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]}})"),
                  "at most 8");
    check_message(header_error(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})"),
                  "expected an unsigned integer");
    check_message(header_error(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})"),
                  "expected an unsigned integer");
    check_message(header_error(R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}})"),
                  "out of range");
    check_message(header_error(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})"),
                  "overflows");
    check_message(header_error(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})"),
                  "need 12 bytes, data_offsets give 8");
    check_message(header_error(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,8]}})"), "a whole number of bytes");
    check_message(header_error(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})"), "not a pair");
    check_message(header_error(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})"), "run backwards");
    check_message(header_error(R"({"":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"), "the name has 0 bytes");
}

TEST_CASE("safetensors: tensors must tile the data") {
    const std::string two = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],)";
    CHECK(header_error(two + R"("data_offsets":[4,8]}})") == "");
    check_message(header_error(two + R"("data_offsets":[8,12]}})", 12), "(hole)");
    check_message(header_error(two + R"("data_offsets":[2,6]}})"), "(overlap)");
    check_message(header_error(two + R"("data_offsets":[0,4]}})"), "(overlap)");
    check_message(header_error(two + R"("data_offsets":[4,8]}})", 7), "the file has 7");
    check_message(header_error(two + R"("data_offsets":[4,8]}})", 9), "1 trailing bytes");
    check_message(
        header_error(
            R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
        "'a' appears twice");
}

TEST_CASE("safetensors: truncated at every byte") {
    const std::string whole = safetensors_bytes({{"a", {2}, {1, 2}}, {"b", {1}, {3}}});
    CHECK(open_error(whole) == "");
    for (size_t n = 0; n < whole.size(); ++n) {
        CHECK(open_error(whole.substr(0, n)) != "");
    }
}

TEST_CASE("safetensors: shards and what stands in for weights") {
    const std::string dir = temp_dir();
    check_message(dir_error(dir), "no model.safetensors");
    write_file(dir + "/pytorch_model.bin", "x");
    check_message(dir_error(dir), "the only weights are pickled");

    const auto index = [&](const std::string & shard) {
        write_file(dir + "/model.safetensors.index.json",
                   R"({"weight_map":{"a":")" + shard + R"(","b":"two.safetensors"}})");
    };
    write_file(dir + "/one.safetensors", safetensors_bytes({{"a", {1}, {1}}}));
    index("one.safetensors");
    check_message(dir_error(dir), "'two.safetensors', which is missing");
    write_file(dir + "/two.safetensors", safetensors_bytes({{"b", {1}, {2}}}));
    const Safetensors both  = Safetensors::open_dir(dir);
    float             value = 0;
    both.read(*both.find("b"), 0, &value, 4);
    CHECK(value == 2);

    for (const char * shard : {"../one.safetensors", "/etc/passwd", "sub/one.safetensors", "..", "", "a\\\\b"}) {
        index(shard);
        check_message(dir_error(dir), "not a plain file name");
    }
    index("one.safetensors");
    write_file(dir + "/two.safetensors", safetensors_bytes({{"a", {1}, {2}}}));
    check_message(dir_error(dir), "also in another shard");
    write_file(dir + "/two.safetensors", safetensors_bytes({{"c", {1}, {2}}}));
    check_message(dir_error(dir), "'b', which no shard has");
    write_file(dir + "/model.safetensors.index.json", R"({"weight_map":[]})");
    check_message(dir_error(dir), "no 'weight_map'");
    write_file(dir + "/model.safetensors.index.json", R"({"weight_map":{"a":1}})");
    check_message(dir_error(dir), "expected a string");
}
