// A diffusion model never runs silently as an autoregressive one.

#include "buoy/error.h"
#include "convert.h"
#include "io/gguf-file.h"
#include "support/cli.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/random-context.h"
#include "support/vocab-kinds.h"

#include <doctest/doctest.h>

using namespace buoy;
using namespace buoy::test;

namespace {

// A llama.cpp file of an autoregressive architecture, whose keys say nothing about diffusion.
GgufBytes silent_file() {
    GgufBytes file = parse_gguf(read_file(random_gguf(small_model("llama"))));
    return file;
}

std::string written(const GgufBytes & file) { return test::write_file(temp_dir(), "model.gguf", file.build()); }

std::string error_of(const TestModel & model, bool by_libllama = false) {
    try {
        by_libllama ? load_llama_context(model, exact_params()) : load_context(model, exact_params());
    } catch (const Error & error) {
        return error.what();
    }
    return "none";
}

std::string convert_error(const HfDir & dir, bool force_causal) {
    ConvertParams params;
    params.input        = dir.write();
    params.output       = temp_dir() + "/out.gguf";
    params.force_causal = force_causal;
    try {
        convert_hf(params);
    } catch (const Error & error) {
        return error.what();
    }
    return "none";
}

} // namespace

TEST_CASE("a file that may be a diffusion model's is not run autoregressively unless somebody insists") {
    TestModel model;
    model.path = written(silent_file());
    CHECK(error_of(model) == "none");

    GgufBytes masked = silent_file();
    masked.u32("tokenizer.ggml.mask_token_id", 260);
    model.path = written(masked);
    for (const bool by_libllama : {false, true}) {
        CAPTURE(by_libllama);
        model.force_causal = false;
        CHECK(error_of(model, by_libllama).find("has a mask token, so it may be a diffusion model") !=
              std::string::npos);
        model.force_causal = true;
        CHECK(error_of(model, by_libllama) == "none");
    }
    CHECK(!load_context(model, exact_params())->info().traits.is_diffusion());

    // a mask that no key names
    GgufBytes unnamed = silent_file();
    auto      tokens  = texts_of(unnamed, "tokenizer.ggml.tokens");
    tokens[260]       = "<|mdm_mask|>";
    put_texts(unnamed, "tokenizer.ggml.tokens", tokens);
    TestModel other;
    other.path = written(unnamed);
    CHECK(error_of(other).find("has a mask token, so it may be a diffusion model") != std::string::npos);
    other.force_causal = true;
    CHECK(error_of(other) == "none");

    // said either way, there is no doubt
    model.force_causal = false;
    masked.number("llama.attention.causal", GGUF_TYPE_BOOL, int8_t{1});
    model.path = written(masked);
    CHECK(error_of(model) == "none");
    masked.erase_pair("llama.attention.causal");
    masked.u32("diffusion.block_length", 4);
    model.path = written(masked);
    CHECK(load_context(model, exact_params())->info().traits.is_diffusion());

    GgufBytes keyed = silent_file();
    keyed.u32("diffusion.canvas_length", 256);
    model.path = written(keyed);
    CHECK(error_of(model).find("has key 'diffusion.canvas_length', so it may be a diffusion model") !=
          std::string::npos);
}

TEST_CASE("a diffusion model can be forced to be causal") {
    TestModel model;
    model.path         = random_gguf(small_model("llada"));
    model.force_causal = true;
    const auto context = load_context(model, exact_params());
    CHECK(context->info().traits.attention == AttentionKind::causal);
    CHECK(context->info().traits.shift);
}

TEST_CASE("cli: --force-causal") {
    GgufBytes masked = silent_file();
    masked.u32("tokenizer.ggml.mask_token_id", 260);
    const std::string path = written(masked);
    check_refused(cli({"-m", path, "-p", "x", "-n", "2"}), "insist with --force-causal");
    CHECK(cli({"-m", path, "-p", "x", "-n", "2", "--force-causal"}).code == 0);
    check_refused(cli({"-m", path, "-p", "x", "-n", "2", "--mode", "both"}), "is not ar, diffusion or spec");
    check_refused(cli({"-m", tiny_model("llada"), "-p", "x", "-n", "2", "--mode", "ar"}),
                  "llada is a diffusion model and has no other mode");
}

TEST_CASE("a checkpoint whose code is a diffusion model that we don't know is not converted as something else") {
    HfDir dir = tiny_checkpoint("LlamaForCausalLM");
    CHECK(convert_error(dir, false) == "none");
    dir.config["auto_map"] = {{"AutoModel", "modeling_foo.FooDiffusionModel"}};
    CHECK(convert_error(dir, false)
              .find("its code is 'modeling_foo.FooDiffusionModel', a diffusion model that is not "
                    "known here; as LlamaForCausalLM it would be run autoregressively") != std::string::npos);
    CHECK(convert_error(dir, true) == "none");
    dir.config["auto_map"] = {{"AutoTokenizer", {"tokenization_llama.LlamaTokenizer", nullptr}}};
    CHECK(convert_error(dir, false) == "none");
    dir.config.erase("auto_map");
    dir.config["model_type"] = "block_diffusion_llama";
    CHECK(convert_error(dir, false).find("its code is 'block_diffusion_llama'") != std::string::npos);
    dir.config["model_type"] = "llama";
    CHECK(convert_error(dir, false) == "none");
    ConvertParams with_file;
    with_file.input  = dir.write();
    with_file.output = temp_dir() + "/out.gguf";
    test::write_file(with_file.input + "/modeling_bd3lm.py", "");
    CHECK_THROWS_WITH_AS(convert_hf(with_file), doctest::Contains("its code is 'modeling_bd3lm.py'"), Error);

    // a known one stays what it is, and says so
    HfDir known              = tiny_checkpoint("DreamModel");
    known.config["auto_map"] = {{"AutoModel", "modeling_dream.DreamModel"}};
    CHECK(convert_error(known, false) == "none");
}

// As Stable-DiffCoder is for a program that goes by model_type.
TEST_CASE("a checkpoint that names a mask token is not converted as an autoregressive model") {
    HfDir dir                          = tiny_checkpoint("LlamaForCausalLM");
    dir.tokenizer_config["mask_token"] = "<|mask|>";
    CHECK(convert_error(dir, false)
              .find("names a mask token, so it may be a diffusion model, but 'llama' is an "
                    "autoregressive one") != std::string::npos);
    CHECK(convert_error(dir, true) == "none");
    HfDir by_id                   = tiny_checkpoint("LlamaForCausalLM");
    by_id.config["mask_token_id"] = 5;
    CHECK(convert_error(by_id, false).find("names a mask token") != std::string::npos);

    ConvertParams params; // who says what it is, is believed
    params.input        = dir.write();
    params.output       = temp_dir() + "/out.gguf";
    params.block_length = 4;
    convert_hf(params);
    CHECK(GgufFile::open(params.output).get_bool("llama.attention.causal") == false);
}

TEST_CASE("the converter says of every model whether it is causal") {
    for (const char * architecture : {"LlamaForCausalLM", "Qwen2ForCausalLM", "DreamModel"}) {
        ConvertParams params;
        params.input  = tiny_checkpoint(architecture).write();
        params.output = temp_dir() + "/out.gguf";
        convert_hf(params);
        const GgufFile    file = GgufFile::open(params.output);
        const std::string arch = file.require_string("general.architecture");
        CHECK(file.get_bool(arch + ".attention.causal") == (arch != "dream"));
    }
    GgufBytes masked = silent_file();
    masked.u32("tokenizer.ggml.mask_token_id", 260);
    ConvertParams params;
    params.input        = written(masked);
    params.output       = temp_dir() + "/out.gguf";
    params.force_causal = true;
    convert_hf(params);
    TestModel model;
    model.path = params.output;
    CHECK(error_of(model) == "none");
}
