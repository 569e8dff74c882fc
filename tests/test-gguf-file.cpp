#include "io/gguf-file.h"

#include "buoy/error.h"
#include "support/gguf-bytes.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <ggml-cpp.h>

#include <cstring>
#include <filesystem>
#include <limits>

#include <unistd.h>

using namespace buoy;
using namespace buoy::test;

namespace {

std::string write_sample() { return write_file(temp_dir(), "sample.gguf", gguf_sample().build()); }

// The model of three files, two tensors each; the parts can be made wrong before they are written.
std::vector<GgufBytes> split_sample() {
    std::vector<GgufBytes> parts(3);
    for (uint16_t i = 0; i < 3; ++i) {
        GgufBytes & part = parts[i];
        if (i == 0) {
            part.text("general.architecture", "llama");
        }
        part.number("split.no", GGUF_TYPE_UINT16, i);
        part.number("split.count", GGUF_TYPE_UINT16, uint16_t{3});
        part.number("split.tensors.count", GGUF_TYPE_INT32, int32_t{6});
        part.tensor("a" + std::to_string(i), GGML_TYPE_F32, {8 + i});
        part.tensor("b" + std::to_string(i), GGML_TYPE_F32, {8});
    }
    return parts;
}

// Returns the path of the first.
std::string write_split(const std::vector<GgufBytes> & parts, const std::string & dir) {
    for (size_t i = 0; i < parts.size(); ++i) {
        write_file(dir, "m-0000" + std::to_string(i + 1) + "-of-0000" + std::to_string(parts.size()) + ".gguf",
                   parts[i].build());
    }
    return dir + "/m-00001-of-0000" + std::to_string(parts.size()) + ".gguf";
}

std::string open_error(const std::string & path) {
    try {
        GgufFile::open(path);
    } catch (const Error & error) {
        return error.what();
    }
    return "no error";
}

} // namespace

TEST_CASE("gguf: values of every type") {
    const GgufFile file = GgufFile::open(write_sample());
    CHECK(file.version() == 3);
    CHECK(file.alignment() == 32);
    CHECK(file.keys().size() == 17);
    CHECK(file.keys()[0] == "general.architecture");
    CHECK(file.has("a.u8"));
    CHECK_FALSE(file.has("a.none.such"));

    CHECK(file.get_int("a.u8") == 200);
    CHECK(file.get_int("a.i8") == -100);
    CHECK(file.get_int("a.u16") == 60000);
    CHECK(file.get_int("a.i16") == -30000);
    CHECK(file.get_int("a.u32") == 4000000000);
    CHECK(file.get_int("a.i32") == -2000000000);
    CHECK(file.get_int("a.u64") == int64_t{1} << 62);
    CHECK(file.get_int("a.i64") == -(int64_t{1} << 62));
    CHECK(file.get_float("a.f32") == 0.5);
    CHECK(file.get_float("a.f64") == -0.25);
    CHECK(file.get_bool("a.bool") == true);
    CHECK(file.get_string("general.architecture") == "llama");

    CHECK(file.get_int_array("a.ints") == std::vector<int64_t>{1, -2, 3});
    CHECK(file.get_float_array("a.floats") == std::vector<double>{1.5, -2.5});
    CHECK(file.get_string_array("a.texts") == std::vector<std::string>{"", "one", std::string("two\0", 4)});
    CHECK(file.get_int_array("a.none") == std::vector<int64_t>{});
    CHECK(file.array_size("a.texts") == 3);
    CHECK(file.array_size("a.bools") == 2);
    CHECK(file.is_array("a.ints"));
    CHECK_FALSE(file.is_array("a.u8"));
    CHECK_FALSE(file.is_array("missing"));

    CHECK_FALSE(file.get_int("missing").has_value());
    CHECK_FALSE(file.get_float("missing").has_value());
    CHECK_FALSE(file.get_bool("missing").has_value());
    CHECK_FALSE(file.get_string("missing").has_value());
    CHECK_FALSE(file.get_int_array("missing").has_value());
    CHECK_FALSE(file.get_float_array("missing").has_value());
    CHECK_FALSE(file.get_string_array("missing").has_value());
    CHECK_FALSE(file.array_size("missing").has_value());

    CHECK(file.require_int("a.u8", 0, 255) == 200);
    CHECK(file.require_float("a.f32") == 0.5);
    CHECK(file.require_string("general.architecture") == "llama");
}

TEST_CASE("gguf: a wrong type, a missing key and a value out of range name file, key, expected and actual") {
    GgufBytes bytes = gguf_sample();
    bytes.number("big", GGUF_TYPE_UINT64, ~uint64_t{0});
    bytes.array("bigs", GGUF_TYPE_UINT64, 1, le(~uint64_t{0}));
    bytes.f32("nan", std::numeric_limits<float>::quiet_NaN());
    bytes.f32("inf", std::numeric_limits<float>::infinity());
    bytes.u32("bad\n\xff", 1);
    const std::string path = write_file(temp_dir(), "wrong.gguf", bytes.build());
    const GgufFile    file = GgufFile::open(path);

    const auto says = [&](const std::string & problem) { return doctest::String((path + ": key " + problem).c_str()); };
    CHECK_THROWS_WITH_AS(file.get_int("a.f32"), says("'a.f32': expected an integer, found f32"), Error);
    CHECK_THROWS_WITH_AS(file.get_int("a.bool"), says("'a.bool': expected an integer, found bool"), Error);
    CHECK_THROWS_WITH_AS(file.get_int("a.ints"), says("'a.ints': expected an integer, found an array of i32"), Error);
    CHECK_THROWS_WITH_AS(file.get_float("a.u8"), says("'a.u8': expected a floating-point number, found u8"), Error);
    CHECK_THROWS_WITH_AS(file.get_bool("a.u8"), says("'a.u8': expected a bool, found u8"), Error);
    CHECK_THROWS_WITH_AS(file.get_string("a.u8"), says("'a.u8': expected a string, found u8"), Error);
    CHECK_THROWS_WITH_AS(file.get_int_array("a.u8"), says("'a.u8': expected an array of integers, found u8"), Error);
    CHECK_THROWS_WITH_AS(file.get_int_array("a.texts"),
                         says("'a.texts': expected an array of integers, found an array of str"), Error);
    CHECK_THROWS_WITH_AS(file.get_float_array("a.ints"),
                         says("'a.ints': expected an array of floating-point numbers, found an array of i32"), Error);
    CHECK_THROWS_WITH_AS(file.get_string_array("a.ints"),
                         says("'a.ints': expected an array of strings, found an array of i32"), Error);
    CHECK_THROWS_WITH_AS(file.array_size("a.u8"), says("'a.u8': expected an array, found u8"), Error);

    CHECK_THROWS_WITH_AS(file.get_int("big"), says("'big': expected an integer below 2^63, found 18446744073709551615"),
                         Error);
    CHECK_THROWS_AS(file.get_int_array("bigs"), Error);
    CHECK_THROWS_WITH_AS(file.get_float("nan"), doctest::Contains("'nan': expected a finite number, found"), Error);
    CHECK_THROWS_WITH_AS(file.get_float("inf"), doctest::Contains("'inf': expected a finite number, found"), Error);

    CHECK_THROWS_WITH_AS(file.require_int("n", 0, 9), says("'n': missing, expected an integer"), Error);
    CHECK_THROWS_WITH_AS(file.require_float("n"), says("'n': missing, expected a floating-point number"), Error);
    CHECK_THROWS_WITH_AS(file.require_string("n"), says("'n': missing, expected a string"), Error);
    CHECK_THROWS_WITH_AS(file.require_int("a.u8", 1, 100), says("'a.u8': expected 1 to 100, found 200"), Error);
    CHECK_THROWS_WITH_AS(file.require_int("a.i8", -99, 100), says("'a.i8': expected -99 to 100, found -100"), Error);
    CHECK_THROWS_WITH_AS(file.get_string("bad\n\xff"), says("'bad\\x0a\\xff': expected a string, found u32"), Error);
}

TEST_CASE("gguf: tensors lie where the file has them") {
    const GgufBytes   bytes = gguf_sample();
    const std::string path  = write_sample();
    const GgufFile    file  = GgufFile::open(path);
    REQUIRE(file.tensors().size() == bytes.tensors.size());
    CHECK(file.find_tensor("none") == nullptr);
    CHECK(file.size() == bytes.build().size());

    for (const GgufBytes::Tensor & expected : bytes.tensors) {
        CAPTURE(expected.name);
        const GgufTensor * tensor = file.find_tensor(expected.name);
        REQUIRE(tensor != nullptr);
        CHECK(static_cast<uint32_t>(tensor->type) == expected.type);
        CHECK(tensor->n_dims == static_cast<int>(expected.dims.size()));
        for (size_t i = 0; i < 4; ++i) {
            CHECK(tensor->ne[i] == (i < expected.dims.size() ? expected.dims[i] : 1));
        }
        REQUIRE(tensor->size == expected.data.size());
        CHECK(tensor->offset % 32 == 0);
        std::string data(expected.data.size(), '\0');
        file.file(tensor->file).read(tensor->offset, data.data(), data.size());
        CHECK(data == expected.data);
    }
}

TEST_CASE("gguf: version 2, another alignment, no tensors, a scalar") {
    GgufBytes bytes = gguf_sample();
    bytes.version   = 2;
    bytes.u32("general.alignment", 64);
    bytes.alignment     = 64;
    const GgufFile file = GgufFile::open(write_file(temp_dir(), "two.gguf", bytes.build()));
    CHECK(file.version() == 2);
    CHECK(file.alignment() == 64);
    CHECK(file.find_tensor("cube.weight")->offset % 64 == 0);

    GgufBytes vocab;
    vocab.texts("tokenizer.ggml.tokens", {"a", "b"});
    CHECK(GgufFile::open(write_file(temp_dir(), "vocab.gguf", vocab.header())).tensors().empty());

    GgufBytes scalar;
    scalar.tensors.push_back({"s", {}, GGML_TYPE_F32, le(1.0f), {}, {}, {}});
    const GgufFile with_scalar = GgufFile::open(write_file(temp_dir(), "scalar.gguf", scalar.build()));
    CHECK(with_scalar.tensors()[0].n_dims == 1);
    CHECK(with_scalar.tensors()[0].size == 4);
}

TEST_CASE("gguf: copies share the model, and outlive the original") {
    auto           original = std::make_unique<GgufFile>(GgufFile::open(write_sample()));
    const GgufFile copy     = *original;
    const auto *   tensor   = original->find_tensor("norm.weight");
    original.reset();
    CHECK(copy.find_tensor("norm.weight") == tensor);
    copy.check_size();
}

TEST_CASE("gguf: a file that shrinks after opening is noticed") {
    const std::string path = write_sample();
    const GgufFile    file = GgufFile::open(path);
    file.check_size();
    REQUIRE(truncate(path.c_str(), 100) == 0);
    CHECK_THROWS_WITH_AS(file.check_size(), doctest::Contains("the file shrank"), Error);
}

TEST_CASE("gguf: any file of a split model opens all of them") {
    const std::string dir = temp_dir();
    write_split(split_sample(), dir);
    for (const char * name : {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"}) {
        CAPTURE(name);
        const GgufFile file = GgufFile::open(dir + "/" + name);
        REQUIRE(file.paths().size() == 3);
        CHECK(file.paths()[0] == dir + "/m-00001-of-00003.gguf");
        CHECK(file.get_string("general.architecture") == "llama");
        CHECK(file.tensors().size() == 6);
        REQUIRE(file.find_tensor("a2") != nullptr);
        CHECK(file.find_tensor("a2")->file == 2);
        CHECK(file.find_tensor("a2")->ne[0] == 10);
        CHECK(file.file(2).path() == dir + "/m-00003-of-00003.gguf");
        CHECK(file.size() == file.file(0).size() + file.file(1).size() + file.file(2).size());
    }
}

TEST_CASE("gguf: split files may be links to files of any name") {
    const std::string blobs = temp_dir();
    const std::string links = temp_dir();
    write_split(split_sample(), blobs);
    for (const char * number : {"1", "2", "3"}) {
        const std::string name = std::string("m-0000") + number + "-of-00003.gguf";
        std::filesystem::rename(blobs + "/" + name, blobs + "/" + number);
        std::filesystem::create_symlink(blobs + "/" + number, links + "/" + name);
    }
    CHECK(GgufFile::open(links + "/m-00001-of-00003.gguf").tensors().size() == 6);
}

TEST_CASE("gguf: missing and mixed split files are named") {
    const std::string dir = temp_dir();

    SUBCASE("missing") {
        const std::string first = write_split(split_sample(), dir);
        std::filesystem::remove(dir + "/m-00002-of-00003.gguf");
        CHECK(open_error(first) == dir + "/m-00002-of-00003.gguf: cannot open: No such file or directory");
    }
    SUBCASE("renamed") {
        const std::string first = write_split(split_sample(), dir);
        std::filesystem::rename(first, dir + "/renamed.gguf");
        CHECK(open_error(dir + "/renamed.gguf") ==
              dir + "/renamed.gguf: this is file 1 of a model split into 3, expected a name that ends in "
                    "'-00001-of-00003.gguf'");
    }
    SUBCASE("of another model with another number of files") {
        auto parts                         = split_sample();
        parts[1].pair("split.count").value = le(uint16_t{4});
        CHECK(open_error(write_split(parts, dir)) ==
              dir +
                  "/m-00002-of-00003.gguf: key 'split.count': expected 3 as in the other files of the model, found 4");
    }
    SUBCASE("not a split file") {
        auto parts = split_sample();
        parts[1].pairs.clear();
        CHECK(open_error(write_split(parts, dir)) ==
              dir +
                  "/m-00002-of-00003.gguf: key 'split.count': expected 3 as in the other files of the model, found 1");
    }
    SUBCASE("in the wrong place") {
        auto parts                      = split_sample();
        parts[1].pair("split.no").value = le(uint16_t{2});
        CHECK(open_error(write_split(parts, dir)) ==
              dir + "/m-00002-of-00003.gguf: key 'split.no': expected 1 by the file's name, found 2");
    }
    SUBCASE("number out of range") {
        auto parts                      = split_sample();
        parts[0].pair("split.no").value = le(uint16_t{3});
        CHECK(open_error(write_split(parts, dir)) ==
              dir + "/m-00001-of-00003.gguf: key 'split.no': expected 0 to 2, found 3");
    }
    SUBCASE("without a number") {
        auto parts = split_sample();
        parts[0].pairs.erase(parts[0].pairs.begin() + 1);
        CHECK(open_error(write_split(parts, dir)) ==
              dir + "/m-00001-of-00003.gguf: key 'split.no': missing in one of 3 split files");
    }
    SUBCASE("too many files") {
        auto parts                   = split_sample();
        parts[0].pair("split.count") = {"split.count", GGUF_TYPE_UINT32, le(uint32_t{1000000000}), {}};
        CHECK(open_error(write_split(parts, dir)) ==
              dir + "/m-00001-of-00003.gguf: key 'split.count': expected at most 65535, found 1000000000");
    }
    SUBCASE("a tensor twice") {
        auto parts                 = split_sample();
        parts[2].tensor("b2").name = "a0";
        CHECK(open_error(write_split(parts, dir)) ==
              dir + "/m-00003-of-00003.gguf: tensor 'a0': is also in " + dir + "/m-00001-of-00003.gguf");
    }
    SUBCASE("a tensor missing") {
        auto parts = split_sample();
        parts[2].tensors.pop_back();
        CHECK(open_error(write_split(parts, dir)) ==
              dir + "/m-00001-of-00003.gguf: key 'split.tensors.count': expected 6 tensors in all 3 files, found 5");
    }
    SUBCASE("a sibling is broken") {
        auto parts     = split_sample();
        parts[1].magic = "GGML";
        CHECK(open_error(write_split(parts, dir)).find("m-00002-of-00003.gguf: not a GGUF file") != std::string::npos);
    }
}
