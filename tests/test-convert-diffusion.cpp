// What a checkpoint may leave out and the user then says: the mask token and the length of blocks.

#include "buoy/context.h"
#include "buoy/error.h"
#include "convert.h"
#include "io/gguf-file.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

using namespace buoy;
using namespace buoy::test;

namespace {

// A checkpoint whose vocabulary has a mask that nothing names.
HfDir unnamed_mask(const std::string & architecture) {
    HfDir dir = tiny_checkpoint(architecture);
    for (nlohmann::json & token : dir.tokenizer["added_tokens"]) {
        if (token["content"] == "<|mask|>") {
            token["content"] = "<hidden>";
        }
    }
    return dir;
}

struct Converted {
    std::string path, error;
    int         n_warnings = 0;

    Traits traits() const {
        TestModel params;
        params.path = path;
        return load_context(params, exact_params())->info().traits;
    }
};

Converted convert(const std::string & input, const std::string & mask_token, int64_t block_length) {
    Converted     result;
    ConvertParams convert;
    convert.input        = input;
    convert.output       = temp_dir() + "/out.gguf";
    convert.outtype      = OutType::f32;
    convert.mask_token   = mask_token;
    convert.block_length = block_length;
    convert.log          = [&](LogLevel level, const std::string & text) {
        result.n_warnings += level == LogLevel::warn && text.find("mask token") != std::string::npos ? 1 : 0;
    };
    result.path = convert.output;
    try {
        convert_hf(convert);
    } catch (const Error & error) {
        result.error = error.what();
    }
    return result;
}

} // namespace

TEST_CASE("a mask token by its text or id, of a directory or a file") {
    const std::string dir  = unnamed_mask("DreamModel").write();
    const Converted   none = convert(dir, "", 0);
    CHECK(none.n_warnings == 1);
    CHECK(!GgufFile::open(none.path).get_int("tokenizer.ggml.mask_token_id"));

    const Converted text = convert(dir, "<hidden>", 0);
    CHECK(text.n_warnings == 0);
    const int64_t id = GgufFile::open(text.path).get_int("tokenizer.ggml.mask_token_id").value_or(-1);
    CHECK(GgufFile::open(text.path).get_string_array("tokenizer.ggml.tokens")->at(static_cast<size_t>(id)) ==
          "<hidden>");
    CHECK(text.traits().is_diffusion());

    const Converted number = convert(none.path, std::to_string(id), 0);
    CHECK(number.traits().mask_id == id);
    CHECK(number.traits().attention == AttentionKind::full);
}

TEST_CASE("a block length makes attention block-causal") {
    const std::string dir = unnamed_mask("Qwen3ForCausalLM").write();
    const Converted   out = convert(dir, "<hidden>", 8);
    CHECK(out.traits().attention == AttentionKind::block_causal);
    CHECK(out.traits().block_length == 8);
    CHECK(convert(dir, "", 0).traits().attention == AttentionKind::causal);
    CHECK(convert(out.path, "", 4).traits().block_length == 4); // another one for a file that has one
}

TEST_CASE("what can't be is refused before anything is written") {
    const std::string dir = unnamed_mask("DreamModel").write();
    CHECK(convert(dir, "<none>", 0).error.find("'<none>' is none of the") != std::string::npos);
    CHECK(convert(dir, "123456789", 0).error.find("'123456789' is none of the") != std::string::npos);
    CHECK(convert(dir, "-1", 0).error.find("'-1' is none of the") != std::string::npos);
    CHECK(convert(dir, "", 8).error.find("has no mask token and none was given") != std::string::npos);
    CHECK(convert(dir, "<hidden>", -2).error.find("the block length is -2") != std::string::npos);
}
