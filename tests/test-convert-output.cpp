#include "convert.h"

#include "buoy/error.h"
#include "buoy/random-model.h"
#include "imatrix.h"
#include "io/gguf-file.h"
#include "io/gguf-writer.h"
#include "size-label.h"
#include "support/converted.h"
#include "support/hf-dir.h"
#include "support/llama-run.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

using namespace buoy;
using namespace buoy::test;

namespace {

std::string random_gguf(const std::string & spec) {
    const std::string path = temp_dir() + "/f32.gguf";
    write_random_model(parse_random_model(spec), path);
    return path;
}

size_t n_files(const std::string & dir) {
    const std::filesystem::directory_iterator files(dir);
    return static_cast<size_t>(std::distance(std::filesystem::begin(files), std::filesystem::end(files)));
}

const std::vector<int32_t> TOKENS = {5, 80, 33, 200, 7, 7, 121, 64};

} // namespace

TEST_CASE("output: a GGUF file converted to its own type keeps every value") {
    const std::string input = random_gguf("qwen3:E=64,L=2,H=4,HKV=2,V=300");
    ConvertParams     params;
    params.input   = input;
    params.output  = temp_dir() + "/copy.gguf";
    params.outtype = OutType::f32;
    params.verify  = true;
    for (const TensorError & error : convert_hf(params).errors) {
        CHECK(error.nmse == 0);
        CHECK(error.largest == 0);
    }
    const GgufFile before = GgufFile::open(input);
    const GgufFile after  = GgufFile::open(params.output);
    for (const std::string & key : before.keys()) {
        CHECK(after.has(key));
    }
    CHECK(after.get_string_array("tokenizer.ggml.tokens") == before.get_string_array("tokenizer.ggml.tokens"));
    CHECK(llama_logits(params.output, TOKENS) == llama_logits(input, TOKENS));

    params.output = input;
    params.force  = true;
    CHECK_THROWS_WITH_AS(convert_hf(params), doctest::Contains("is read, so it can't be the output"), Error);
}

TEST_CASE("output: nothing that is read is replaced, and nobody's file is taken for our own") {
    const std::string dir   = temp_dir();
    const std::string input = random_gguf("llada:E=64,L=3,H=4,V=300");
    ConvertParams     params;
    params.input              = input;
    params.output             = dir + "/part.gguf";
    params.outtype            = OutType::f32;
    params.split_max          = 100000;
    const ConvertResult split = convert_hf(params);
    REQUIRE(split.paths.size() > 2);
    const auto check_refused = [&](const std::string & from, const std::string & to) {
        const auto size  = std::filesystem::file_size(to);
        params.input     = from;
        params.output    = to;
        params.split_max = 0;
        params.force     = true;
        CHECK_THROWS_WITH_AS(convert_hf(params), doctest::Contains("is read, so it can't be the output"), Error);
        CHECK(std::filesystem::file_size(to) == size);
    };
    check_refused(split.paths[0], split.paths[1]);
    const std::string hf = tiny_checkpoint("LLaDAModelLM").write();
    check_refused(hf, hf + "/model.safetensors");
    check_refused(hf, hf + "/config.json");

    params.input         = input;
    params.output        = dir + "/checked.gguf";
    params.force         = false;
    params.verify_logits = true;
    std::filesystem::copy_file(input, params.output + ".source");
    CHECK_THROWS_WITH_AS(convert_hf(params), doctest::Contains(".source"), Error);
    CHECK(std::filesystem::file_size(params.output + ".source") == std::filesystem::file_size(input));
}

TEST_CASE("output: one file of a checkpoint is no input") {
    const std::string hf = tiny_checkpoint("LLaDAModelLM").write();
    ConvertParams     params;
    params.output = temp_dir() + "/out.gguf";
    for (const char * name : {"/model.safetensors", "/config.json"}) {
        params.input = hf + name;
        CHECK_THROWS_WITH_AS(convert_hf(params), doctest::Contains("the directory it lies in"), Error);
    }
}

TEST_CASE("output: split files load here and in libllama, and hold what one file holds") {
    const std::string input = random_gguf("llada:E=64,L=3,H=4,V=300");
    ConvertParams     params;
    params.input   = input;
    params.output  = temp_dir() + "/whole.gguf";
    params.outtype = OutType::q8_0;
    convert_hf(params);
    const std::string whole = params.output;

    params.output               = temp_dir() + "/part.gguf";
    params.split_max            = 40000;
    const ConvertResult result  = convert_hf(params);
    const size_t        n_parts = result.paths.size();
    REQUIRE(n_parts > 2);
    const GgufFile parts = GgufFile::open(result.paths[0]);
    for (size_t i = 0; i < n_parts; i++) {
        uint64_t n_tensors = 0;
        for (const GgufTensor & tensor : parts.tensors()) {
            n_tensors += tensor.file == static_cast<int>(i) ? 1 : 0;
        }
        const bool alone = n_tensors == 1; // a tensor that is larger has a file of its own
        CHECK((alone || std::filesystem::file_size(result.paths[i]) <= params.split_max));
    }
    CHECK(result.paths[0].find("/part-00001-of-0000") != std::string::npos);
    const GgufFile split = GgufFile::open(result.paths[1]); // any of them
    CHECK(split.paths().size() == n_parts);
    CHECK(split.tensors().size() == GgufFile::open(whole).tensors().size());
    CHECK(llama_logits(result.paths[0], TOKENS) == llama_logits(whole, TOKENS));
    CHECK(n_files(std::filesystem::path(params.output).parent_path()) == n_parts);

    // and a split model is an input like any other
    params.input     = result.paths[0];
    params.output    = temp_dir() + "/joined.gguf";
    params.split_max = 0;
    convert_hf(params);
    CHECK_FALSE(GgufFile::open(params.output).has("split.count"));
    CHECK(llama_logits(params.output, TOKENS) == llama_logits(whole, TOKENS));
}

TEST_CASE("output: a dry run writes nothing and knows the size to the byte") {
    ConvertParams params;
    params.input                = random_gguf("llama:E=256,L=2,H=4,V=300");
    params.output               = temp_dir();
    params.outtype              = OutType::q4_k_m;
    params.dry_run              = true;
    const ConvertResult planned = convert_hf(params);
    CHECK(n_files(params.output) == 0);
    params.dry_run           = false;
    const ConvertResult done = convert_hf(params);
    CHECK(done.paths == planned.paths);
    CHECK(std::filesystem::file_size(done.paths[0]) == planned.n_bytes);
    CHECK(n_files(params.output) == 1);
    CHECK(done.paths[0].find("-Q4_K_M.gguf") != std::string::npos);
}

TEST_CASE("output: names by the GGUF convention") {
    CHECK(file_name("LLaDA-8B-Instruct", "8.0B", "F16") == "LLaDA-8B-Instruct-F16.gguf");
    CHECK(file_name("My model", "656K", "Q4_K_M") == "My-model-656K-Q4_K_M.gguf");
    CHECK(file_name("mixtral-8x7B", "8x7B", "Q8_0") == "mixtral-8x7B-Q8_0.gguf");
    CHECK(file_name("../../etc/passwd", "", "F16").find('/') == std::string::npos);
    PlannedTensor common;
    common.n_rows         = 1000;
    common.n_cols         = 1000;
    PlannedTensor experts = common;
    experts.n_rows        = 8000;
    experts.n_dims        = 3;
    experts.n_last        = 8;
    CHECK(size_label({common}) == "1.0M");
    CHECK(size_label({common, experts}) == "8x2.0M");
}

TEST_CASE("output: verification measures the error of the type") {
    ConvertParams params;
    params.input         = random_gguf("dream:E=256,L=2,H=4,HKV=2,V=300");
    params.output        = temp_dir() + "/q.gguf";
    params.verify        = true;
    params.verify_logits = true;
    // a uniform quantiser of b bits has an error of about 4^-b; Q8_0 has 8, Q4_0 4
    for (const auto & [outtype, at_least, at_most] :
         {std::make_tuple(OutType::q8_0, 1e-6, 1e-4), std::make_tuple(OutType::q4_0, 1e-3, 3e-2)}) {
        params.outtype             = outtype;
        params.force               = true;
        const ConvertResult result = convert_hf(params);
        REQUIRE_FALSE(result.errors.empty());
        CHECK(result.errors.front().nmse > at_least);
        CHECK(result.errors.front().nmse < at_most);
        CHECK(result.errors.back().nmse == 0); // norms
        REQUIRE(result.logits);
        CHECK(result.logits->nmse > 0);
        CHECK(result.logits->nmse < 10 * at_most);
        CHECK(result.logits->n_agree <= result.logits->n_rows);
    }
    CHECK(n_files(std::filesystem::path(params.output).parent_path()) == 1); // the source's precision is gone again
}

TEST_CASE("output: FP8 weights with their scales") {
    HfDir             dir  = tiny_checkpoint("LlamaForCausalLM");
    const std::string name = "model.layers.0.mlp.down_proj.weight"; // [32, 64]
    HfTensor &        down = dir.tensor(name);
    down.dtype             = "F8_E4M3";
    for (size_t i = 0; i < down.values.size(); ++i) {
        down.values[i] = static_cast<float>(i % 3 == 0 ? 0x38 : i % 3 == 1 ? 0xc4 : 0x01); // 1, -3, 2^-9
    }
    const auto expected = [&](size_t i, float scale) {
        return scale * (i % 3 == 0 ? 1.0F : i % 3 == 1 ? -3.0F : std::ldexp(1.0F, -9));
    };
    ConvertParams params;
    params.output  = temp_dir() + "/out.gguf";
    params.outtype = OutType::f32;
    params.verify  = true;
    SUBCASE("in blocks") {
        dir.config["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {16, 32}}};
        dir.tensors.push_back({name + "_scale_inv", {2, 2}, {1, 2, 3, 4}, "F32"});
        params.input = dir.write();
        convert_hf(params);
        const std::vector<float> values = floats(GgufFile::open(params.output), "blk.0.ffn_down.weight");
        for (size_t i = 0; i < values.size(); ++i) {
            const size_t block = i / 64 / 16 * 2 + i % 64 / 32;
            REQUIRE(values[i] == expected(i, static_cast<float>(block + 1)));
        }
    }
    SUBCASE("one for all") {
        dir.tensors.push_back({name + "_scale", {1}, {0.5F}, "BF16"});
        params.input = dir.write();
        convert_hf(params);
        const std::vector<float> values = floats(GgufFile::open(params.output), "blk.0.ffn_down.weight");
        for (size_t i = 0; i < values.size(); ++i) {
            REQUIRE(values[i] == expected(i, 0.5F));
        }
    }
    SUBCASE("one a row") {
        std::vector<float> scales(32, 2.0F);
        scales[5] = 8.0F;
        dir.tensors.push_back({name + "_scale", {32, 1}, scales, "F32"});
        params.input = dir.write();
        convert_hf(params);
        const std::vector<float> values = floats(GgufFile::open(params.output), "blk.0.ffn_down.weight");
        for (size_t i = 0; i < values.size(); ++i) {
            REQUIRE(values[i] == expected(i, i / 64 == 5 ? 8.0F : 2.0F));
        }
    }
    SUBCASE("without") {
        params.input = dir.write();
        CHECK_THROWS_WITH_AS(convert_hf(params), doctest::Contains("without its scales"), Error);
    }
    SUBCASE("of another shape") {
        dir.tensors.push_back({name + "_scale", {3}, {1, 1, 1}, "F32"});
        params.input = dir.write();
        CHECK_THROWS_WITH_AS(convert_hf(params), doctest::Contains("fits neither"), Error);
    }
}

TEST_CASE("output: importance matrices of the older format, and broken ones") {
    const std::string path   = temp_dir() + "/imatrix.dat";
    const auto        number = [](int32_t value) { return std::string(reinterpret_cast<const char *>(&value), 4); };
    const float       sums[] = {2, 4, 8};
    std::string       bytes  = number(1) + number(3) + "abc" + number(2) + number(3);
    bytes.append(reinterpret_cast<const char *>(sums), sizeof(sums));
    write_file(path, bytes);

    PlannedTensor tensor;
    tensor.name   = "abc";
    tensor.n_cols = 3;
    tensor.n_rows = 1;
    tensor.type   = GGML_TYPE_Q4_0;

    const Imatrix matrix = Imatrix::load(path);
    const float * values = matrix.find(tensor);
    REQUIRE(values != nullptr);
    CHECK(values[0] == 1);
    CHECK(values[2] == 4);
    tensor.n_cols = 4;
    CHECK_THROWS_WITH_AS(matrix.find(tensor), doctest::Contains("has 3 values, the model's needs 4"), Error);
    tensor.name = "other";
    CHECK(matrix.find(tensor) == nullptr);

    for (size_t n = 1; n < bytes.size(); ++n) {
        write_file(path, bytes.substr(0, n));
        CHECK_THROWS_AS(Imatrix::load(path), Error);
    }
    const float bad[] = {NAN, 1, 1};
    std::memcpy(bytes.data() + bytes.size() - sizeof(bad), bad, sizeof(bad));
    write_file(path, bytes);
    CHECK_THROWS_WITH_AS(Imatrix::load(path), doctest::Contains("NaN or infinite"), Error);

    ConvertParams params;
    params.input   = random_gguf("llama:E=64,L=1,H=4,V=300");
    params.output  = temp_dir() + "/out.gguf";
    params.outtype = OutType::q4_0;
    params.imatrix = params.input;
    CHECK_THROWS_WITH_AS(convert_hf(params), doctest::Contains("not an importance matrix"), Error);
}
