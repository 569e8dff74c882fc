// Files that are sound GGUF but no sound model: the message names file, key or tensor, what was expected and what is there.

#include "arch/arch.h"
#include "buoy/context.h"
#include "buoy/error.h"
#include "buoy/message.h"
#include "buoy/vocab.h"
#include "support/gguf-bytes.h"
#include "support/paths.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>

using namespace buoy;
using namespace buoy::test;

namespace {

std::string read_bytes(const std::string & path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

RandomModel tiny(const std::string & arch) {
    RandomModel model;
    model.arch      = arch;
    model.n_embd    = 32;
    model.n_head    = 4;
    model.n_head_kv = 2;
    model.n_layer   = 2;
    return model;
}

GgufBytes tiny_bytes(const std::string & arch) { return parse_gguf(read_bytes(random_gguf(tiny(arch)))); }

std::unique_ptr<Context> load(const std::string & path) {
    TestModel params;
    params.path = path;
    return load_context(params, exact_params());
}

// What loading says, without the path it must begin with.
std::string error_of(const std::string & path) {
    try {
        load(path);
    } catch (const Error & error) {
        const std::string message = error.what();
        CHECK(error.kind() == ErrorKind::request);
        CHECK(message.rfind(path + ": ", 0) == 0);
        CHECK(message.find('\n') == std::string::npos);
        return message.substr(std::min(message.size(), path.size() + 2));
    }
    return "no error";
}

using Bytes = GgufBytes;

struct Fault {
    std::string                  name;
    std::function<void(Bytes &)> breaks;
    std::string                  message;
};

void check_faults(const std::string & arch, const std::vector<Fault> & faults) {
    const std::string dir  = temp_dir();
    const Bytes       good = tiny_bytes(arch);
    REQUIRE(error_of(write_file(dir, "good.gguf", good.build())) == "no error");
    for (const Fault & fault : faults) {
        CAPTURE(fault.name);
        Bytes bytes = good;
        fault.breaks(bytes);
        CHECK(error_of(write_file(dir, "bad.gguf", bytes.build())) == fault.message);
    }
}

// Replaces a key's value, whatever its type was.
std::function<void(Bytes &)> with_int(const std::string & key, int64_t value) {
    return [=](Bytes & b) {
        b.pair(key).type  = GGUF_TYPE_INT64;
        b.pair(key).value = le(value);
    };
}

std::function<void(Bytes &)> with_float(const std::string & key, double value) {
    return [=](Bytes & b) {
        b.pair(key).type  = GGUF_TYPE_FLOAT64;
        b.pair(key).value = le(value);
    };
}

std::function<void(Bytes &)> with_text(const std::string & key, const std::string & value) {
    return [=](Bytes & b) {
        b.pair(key).type  = GGUF_TYPE_STRING;
        b.pair(key).value = gguf_string(value);
    };
}

std::function<void(Bytes &)> without(const std::string & key) {
    return [=](Bytes & b) { b.erase_pair(key); };
}

// Another tensor under the same name.
std::function<void(Bytes &)> with_tensor(const std::string & name, ggml_type type, const std::vector<int64_t> & dims) {
    return [=](Bytes & b) {
        b.tensor(name).name = "old";
        b.tensor(name, type, dims);
    };
}

void erase_tokenizer(Bytes & b) {
    for (size_t i = b.pairs.size(); i-- > 0;) {
        if (b.pairs[i].key.rfind("tokenizer.", 0) == 0 && b.pairs[i].key != "tokenizer.ggml.mask_token_id") {
            b.erase_pair(std::string(b.pairs[i].key));
        }
    }
}

} // namespace

TEST_CASE("model faults: a taken apart file is the same when put together") {
    const std::string bytes = read_bytes(random_gguf(tiny("qwen3")));
    CHECK(parse_gguf(bytes).build() == bytes);
}

TEST_CASE("model faults: architecture") {
    std::string known = "key 'general.architecture': expected ";
    for (const std::string & name : arch_names()) {
        known += (name == arch_names().front() ? "" : ", ") + name;
    }
    known += ", found ";
    check_faults(
        "llada",
        {
            {"unknown", with_text("general.architecture", "no-such-arch"),
             known + "'no-such-arch', which libllama does not know either"},
            {"empty", with_text("general.architecture", ""), known + "'', which libllama does not know either"},
            {"control characters", with_text("general.architecture", "\x1b[2J\n"),
             known + "'\\x1b[2J\\x0a', which libllama does not know either"},
            {"missing", without("general.architecture"), "key 'general.architecture': missing, expected a string"},
            {"a number", with_int("general.architecture", 7),
             "key 'general.architecture': expected a string, found i64"},
        });
}

TEST_CASE("model faults: required keys") {
    const std::vector<std::string> integers = {"context_length", "embedding_length", "block_count",
                                               "feed_forward_length", "attention.head_count"};
    std::vector<Fault>             faults;
    for (const std::string & name : integers) {
        const std::string key = "llada." + name, at = "key '" + key + "': ";
        const std::string max = name == "context_length" ? "2147483647" : "16777216";
        faults.push_back({key + " missing", without(key), at + "missing, expected an integer"});
        faults.push_back({key + " text", with_text(key, "4"), at + "expected an integer, found str"});
        faults.push_back({key + " float", with_float(key, 4.0), at + "expected an integer, found f64"});
        faults.push_back({key + " 0", with_int(key, 0), at + "expected 1 to " + max + ", found 0"});
        faults.push_back({key + " -1", with_int(key, -1), at + "expected 1 to " + max + ", found -1"});
        faults.push_back(
            {key + " 2^40", with_int(key, 1ll << 40), at + "expected 1 to " + max + ", found 1099511627776"});
    }
    const std::string eps = "llada.attention.layer_norm_rms_epsilon", at = "key '" + eps + "': ";
    const double      inf = std::numeric_limits<double>::infinity();
    faults.push_back({"eps missing", without(eps), at + "missing, expected a floating-point number"});
    faults.push_back({"eps integer", with_int(eps, 0), at + "expected a floating-point number, found i64"});
    faults.push_back({"eps NaN", with_float(eps, std::nan("")), at + "expected a finite number, found nan"});
    faults.push_back({"eps inf", with_float(eps, inf), at + "expected a finite number, found inf"});
    faults.push_back({"eps negative", with_float(eps, -1e-5), at + "expected 0 to 1, found -1e-05"});
    faults.push_back({"eps 2", with_float(eps, 2.0), at + "expected 0 to 1, found 2"});
    check_faults("llada", faults);
}

TEST_CASE("model faults: layers and heads") {
    const auto no_key_length = [](const std::function<void(Bytes &)> & more) {
        return [=](Bytes & b) {
            b.erase_pair("llama.attention.key_length");
            b.erase_pair("llama.attention.value_length");
            more(b);
        };
    };
    check_faults("llama",
                 {
                     {"10^9 layers", with_int("llama.block_count", 1000000000),
                      "key 'llama.block_count': expected 1 to 16777216, found 1000000000"},
                     {"more layers than tensors", with_int("llama.block_count", 22),
                      "key 'llama.block_count': expected at most the file's 21 tensors, found 22"},
                     {"one layer more", with_int("llama.block_count", 3),
                      "tensor 'blk.2.attn_norm.weight': missing, expected shape [32]"},
                     {"heads that don't divide the width", no_key_length(with_int("llama.attention.head_count", 6)),
                      "key 'llama.attention.head_count': expected a divisor of embedding_length 32, found 6"},
                     {"K/V heads that don't divide the heads", with_int("llama.attention.head_count_kv", 3),
                      "key 'llama.attention.head_count_kv': expected a divisor of head_count 4, found 3"},
                     {"more K/V heads than heads", with_int("llama.attention.head_count_kv", 8),
                      "key 'llama.attention.head_count_kv': expected a divisor of head_count 4, found 8"},
                     {"no K/V heads", with_int("llama.attention.head_count_kv", 0),
                      "key 'llama.attention.head_count_kv': expected 1 to 16777216, found 0"},
                     {"values of another length", with_int("llama.attention.value_length", 16),
                      "key 'llama.attention.value_length': expected the key length 8, found 16"},
                     {"twice the heads", with_int("llama.attention.head_count", 8),
                      "tensor 'blk.0.attn_q.weight': expected shape [32, 64], found [32, 32]"},
                     {"another width", with_int("llama.embedding_length", 64),
                      "tensor 'token_embd.weight': expected shape [64, 320], found [32, 320]"},
                     {"another inner width", with_int("llama.feed_forward_length", 97),
                      "tensor 'blk.0.ffn_gate.weight': expected shape [32, 97], found [32, 96]"},
                 });
}

TEST_CASE("model faults: tensors") {
    const std::string  matrix_types = "expected type f32, f16, bf16 or one of the quantised, found ";
    std::vector<Fault> faults       = {
              {"norm as f16", with_tensor("blk.1.attn_norm.weight", GGML_TYPE_F16, {32}),
               "tensor 'blk.1.attn_norm.weight': expected type f32, found f16"},
              {"bias as f16", with_tensor("blk.0.attn_q.bias", GGML_TYPE_F16, {32}),
               "tensor 'blk.0.attn_q.bias': expected type f32, found f16"},
              {"transposed", with_tensor("blk.0.ffn_up.weight", GGML_TYPE_F32, {96, 32}),
               "tensor 'blk.0.ffn_up.weight': expected shape [32, 96], found [96, 32]"},
              {"flat", with_tensor("blk.0.ffn_up.weight", GGML_TYPE_F32, {32 * 96}),
               "tensor 'blk.0.ffn_up.weight': expected shape [32, 96], found [3072]"},
              {"deeper", with_tensor("blk.0.ffn_up.weight", GGML_TYPE_F32, {32, 96, 2}),
               "tensor 'blk.0.ffn_up.weight': expected shape [32, 96], found [32, 96, 2]"},
              {"head of another vocabulary", with_tensor("output.weight", GGML_TYPE_F32, {32, 321}),
               "tensor 'output.weight': expected shape [32, 320], found [32, 321]"},
              {"embedding missing", [](Bytes & b) { b.erase_tensor("token_embd.weight"); },
               "tensor 'token_embd.weight': missing"},
    };
    for (const char * name : {"output_norm.weight", "blk.0.attn_norm.weight", "blk.1.ffn_norm.weight"}) {
        faults.push_back({name, [=](Bytes & b) { b.erase_tensor(name); },
                          concat("tensor '", name, "': missing, expected shape [32]")});
    }
    for (const char * name : {"blk.0.attn_q.weight", "blk.1.attn_output.weight"}) {
        faults.push_back({name, [=](Bytes & b) { b.erase_tensor(name); },
                          concat("tensor '", name, "': missing, expected shape [32, 32]")});
    }
    for (const ggml_type type :
         {GGML_TYPE_I8, GGML_TYPE_I16, GGML_TYPE_I32, GGML_TYPE_I64, GGML_TYPE_F64, GGML_TYPE_Q8_1}) {
        for (const char * name : {"token_embd.weight", "output.weight"}) {
            faults.push_back({concat(name, " as ", ggml_type_name(type)), with_tensor(name, type, {32, 320}),
                              concat("tensor '", name, "': ", matrix_types, ggml_type_name(type))});
        }
    }
    check_faults("qwen2", faults);
    check_faults("qwen3",
                 {
                     {"no QK-norm", [](Bytes & b) { b.erase_tensor("blk.1.attn_k_norm.weight"); },
                      "tensor 'blk.1.attn_k_norm.weight': missing, expected shape [8]"},
                     {"QK-norm of another length", with_tensor("blk.0.attn_q_norm.weight", GGML_TYPE_F32, {32}),
                      "tensor 'blk.0.attn_q_norm.weight': expected shape [8], found [32]"},
                 });
}

TEST_CASE("model faults: RoPE") {
    const auto added = [](const std::string & key, double value) {
        return [=](Bytes & b) { b.number("llama.rope." + key, GGUF_TYPE_FLOAT64, value); };
    };
    const auto dims = [](uint32_t n) { return [=](Bytes & b) { b.u32("llama.rope.dimension_count", n); }; };
    const auto at   = [](const std::string & key) { return "key 'llama.rope." + key + "': "; };
    check_faults(
        "llama",
        {
            {"odd dimensions", dims(7),
             at("dimension_count") + "expected an even number up to the head dimension 8, found 7"},
            {"more dimensions than a head", dims(10),
             at("dimension_count") + "expected an even number up to the head dimension 8, found 10"},
            {"no dimensions", dims(0), at("dimension_count") + "expected 1 to 16777216, found 0"},
            {"base 0", with_float("llama.rope.freq_base", 0.0), at("freq_base") + "expected 1e-06 to 1e+30, found 0"},
            {"base beyond a float", with_float("llama.rope.freq_base", 1e300),
             at("freq_base") + "expected 1e-06 to 1e+30, found 1e+300"},
            {"base NaN", with_float("llama.rope.freq_base", std::nan("")),
             at("freq_base") + "expected a finite number, found nan"},
            {"factor negative", added("scaling.factor", -4.0), at("scaling.factor") + "expected 0 to 1e+30, found -4"},
            {"factor with no inverse", added("scaling.factor", 1e-7),
             at("scaling.factor") + "expected 0 (none) or at least 1e-06, found 1e-07"},
            {"the old name", added("scale_linear", -1.0), at("scale_linear") + "expected 0 to 1e+30, found -1"},
            {"unknown scaling", [](Bytes & b) { b.text("llama.rope.scaling.type", "ntk\n"); },
             at("scaling.type") + "expected none, linear or yarn, found 'ntk\\x0a'"},
            {"factors of another length", [](Bytes & b) { b.tensor("rope_freqs.weight", GGML_TYPE_F32, {3}); },
             "tensor 'rope_freqs.weight': expected shape [4], found [3]"},
        });
}

TEST_CASE("model faults: vocabulary and mask") {
    const std::string mask = "tokenizer.ggml.mask_token_id", at = "key '" + mask + "': ";
    const std::string missing     = at + "missing, expected the token that a diffusion model denoises";
    const auto        more_tokens = [](Bytes & b) {
        b.erase_pair("tokenizer.ggml.tokens");
        b.texts("tokenizer.ggml.tokens", std::vector<std::string>(321, "x"));
    };
    const auto no_tokenizer = [=](int64_t id) {
        return [=](Bytes & b) {
            erase_tokenizer(b);
            with_int(mask, id)(b);
        };
    };
    for (const std::string arch : {"llada", "dream"}) {
        check_faults(
            arch,
            {
                {"no mask", without(mask), missing},
                {"mask spelled as none", with_int(mask, -1), missing},
                {"mask spelled as none in 32 bits", with_int(mask, 0xffffffffll), missing},
                {"mask = vocabulary", with_int(mask, 320), at + "expected less than the vocabulary's 320, found 320"},
                {"mask negative", with_int(mask, -2), at + "expected less than the vocabulary's 320, found -2"},
                {"mask beyond 32 bits", with_int(mask, (1ll << 32) + 260),
                 at + "expected less than the vocabulary's 320, found 4294967556"},
                {"mask as text", with_text(mask, "[MASK]"), at + "expected an integer, found str"},
                {"mask beyond the rows, no tokenizer", no_tokenizer(320),
                 at + "expected less than the vocabulary's 320, found 320"},
                {"mask beyond 32 bits, no tokenizer", no_tokenizer(1ll << 32),
                 at + "expected less than the vocabulary's 320, found 4294967296"},
                {"more tokens than rows", more_tokens,
                 "key 'tokenizer.ggml.tokens': expected no more tokens than the 320 rows of tensor "
                 "'token_embd.weight', found 321"},
                {"block length", [](Bytes & b) { b.number("diffusion.block_length", GGUF_TYPE_INT32, int32_t{-8}); },
                 "key 'diffusion.block_length': expected 0 to 16777216, found -8"},
                {"causal as a number", with_int(arch + ".attention.causal", 0),
                 "key '" + arch + ".attention.causal': expected a bool, found i64"},
            });
    }
}

TEST_CASE("model faults: what libllama would abort on is refused before") {
    const std::string dir        = temp_dir();
    const auto        message_of = [&](const std::function<void(Bytes &)> & breaks) {
        Bytes bytes = tiny_bytes("llama");
        breaks(bytes);
        TestModel params;
        params.path = write_file(dir, "bad.gguf", bytes.build());
        try {
            load_llama_context(params, exact_params());
        } catch (const Error & error) {
            return std::string(error.what()).substr(params.path.size() + 2);
        }
        return std::string("no error");
    };
    CHECK(message_of([](Bytes &) {}) == "no error");
    CHECK(message_of(with_tensor("blk.0.ffn_up.weight", GGML_TYPE_I32, {32, 96})) ==
          "tensor 'blk.0.ffn_up.weight': expected type f32, f16, bf16 or one of the quantised, found i32");
    CHECK(message_of([](Bytes & b) { b.text("llama.rope.scaling.type", "ntk"); }) ==
          "key 'llama.rope.scaling.type': expected none, linear, yarn or longrope, found 'ntk'");
}

TEST_CASE("model faults: without a tokenizer a model runs, and only text is refused") {
    const std::string dir = temp_dir();
    for (const std::string arch : {"llada", "llama"}) {
        CAPTURE(arch);
        Bytes bytes = tiny_bytes(arch);
        erase_tokenizer(bytes);
        const std::string path    = write_file(dir, "ids.gguf", bytes.build());
        const auto        context = load(path);
        ForwardRequest    request;
        request.tokens = {1, 2, 3};
        request.rows   = {2};
        CHECK(context->forward(request).logits.size() == 320);
        CHECK_THROWS_WITH_AS(Vocab::load(path),
                             (path + ": key 'tokenizer.ggml.model': missing, expected a string").c_str(), Error);
    }
}

TEST_CASE("model faults: weights that are not numbers give logits that are not, and nothing worse") {
    Bytes bytes = tiny_bytes("llada");
    for (size_t i = 0; i < bytes.tensor("output_norm.weight").data.size(); i += 4) {
        bytes.tensor("output_norm.weight").data.replace(i, 4, le(std::nanf("")));
    }
    const auto     context = load(write_file(temp_dir(), "nan.gguf", bytes.build()));
    ForwardRequest request;
    request.tokens = {1, 2, 3};
    request.rows   = {0, 2};
    request.output = OutputKind::summary;
    for (const RowSummary & row : context->forward(request).summaries) {
        CHECK(std::isnan(row.prob));
        CHECK(row.id >= 0);
        CHECK(row.id < 320);
    }
}

TEST_CASE("model faults: a path is printed as text") {
    const std::string path  = temp_dir() + "/a\nb.gguf";
    Bytes             bytes = tiny_bytes("llada");
    bytes.erase_tensor("output_norm.weight");
    std::filesystem::rename(write_file(temp_dir(), "x", bytes.build()), path);
    try {
        load(path);
        FAIL("no error");
    } catch (const Error & error) {
        CHECK(std::string(error.what()).find("/a\\x0ab.gguf: tensor 'output_norm.weight': missing") !=
              std::string::npos);
    }
}

TEST_CASE("model faults: mixtures of experts") {
    // 8 experts of width 16, 2 used, E 32
    const auto key = [](const char * name) { return std::string("llada2.expert_") + name; };
    check_faults(
        "llada2",
        {
            {"no count", without(key("count")), "key 'llada2.expert_count': missing, expected an integer"},
            {"no experts", with_int(key("count"), 0), "key 'llada2.expert_count': expected 1 to 65536, found 0"},
            {"too many", with_int(key("count"), 1 << 20),
             "key 'llada2.expert_count': expected 1 to 65536, found 1048576"},
            {"another count", with_int(key("count"), 9),
             "tensor 'blk.1.ffn_gate_inp.weight': expected shape [32, 9], found [32, 8]"},
            {"more used than there are", with_int(key("used_count"), 9),
             "key 'llada2.expert_used_count': expected 1 to 8, found 9"},
            {"another width", with_int(key("feed_forward_length"), 24),
             "tensor 'blk.1.ffn_gate_exps.weight': expected shape [32, 24, 8], found [32, 16, 8]"},
            {"no router", [](Bytes & b) { b.tensor("blk.1.ffn_gate_inp.weight").name = "old"; },
             "tensor 'blk.1.ffn_gate_inp.weight': missing, expected shape [32, 8]"},
            {"no experts' matrix", [](Bytes & b) { b.tensor("blk.1.ffn_down_exps.weight").name = "old"; },
             "tensor 'blk.1.ffn_down_exps.weight': missing, expected shape [16, 32, 8]"},
            {"experts of fewer", with_tensor("blk.1.ffn_up_exps.weight", GGML_TYPE_F32, {32, 16, 7}),
             "tensor 'blk.1.ffn_up_exps.weight': expected shape [32, 16, 8], found [32, 16, 7]"},
            {"a bias of fewer", with_tensor("blk.1.exp_probs_b.bias", GGML_TYPE_F32, {7}),
             "tensor 'blk.1.exp_probs_b.bias': expected shape [8], found [7]"},
            {"no shared experts", [](Bytes & b) { b.tensor("blk.1.ffn_up_shexp.weight").name = "old"; },
             "tensor 'blk.1.ffn_up_shexp.weight': missing, expected shape [32, 16]"},
            {"dense layers beyond the last", with_int("llada2.leading_dense_block_count", 3),
             "key 'llada2.leading_dense_block_count': expected 0 to 2, found 3"},
            {"an ordinary layer that has experts", with_int("llada2.leading_dense_block_count", 2),
             "tensor 'blk.1.ffn_gate.weight': missing, expected shape [32, 96]"},
        });
    RandomModel grouped = tiny("llada2");
    grouped.n_group     = 4;
    Bytes bytes         = parse_gguf(read_bytes(random_gguf(grouped)));
    with_int("llada2.expert_group_count", 3)(bytes);
    CHECK(error_of(write_file(temp_dir(), "bad.gguf", bytes.build())) ==
          "key 'llada2.expert_group_count': expected groups of two or more of the 8 experts, with 2 in those used, "
          "found 3");
}

TEST_CASE("model faults: an autoregressive architecture is for diffusion if its file says so") {
    const auto kind = [](const std::function<void(Bytes &)> & change) {
        RandomModel model  = tiny("qwen3");
        model.block_length = 4; // attention.causal = false, a mask, diffusion.block_length = 4
        Bytes bytes        = parse_gguf(read_bytes(random_gguf(model)));
        change(bytes);
        return load(write_file(temp_dir(), "made.gguf", bytes.build()))->info().traits.attention;
    };
    CHECK(kind([](Bytes &) {}) == AttentionKind::block_causal);
    CHECK(kind(without("qwen3.attention.causal")) == AttentionKind::block_causal);
    CHECK(kind(without("diffusion.block_length")) == AttentionKind::full);
    CHECK(kind([](Bytes & b) {
              b.erase_pair("qwen3.attention.causal");
              b.erase_pair("diffusion.block_length");
          }) == AttentionKind::full); // diffusion.shift_logits is left
    CHECK_THROWS_WITH_AS(kind([](Bytes & b) {
                             b.erase_pair("qwen3.attention.causal");
                             b.erase_pair("tokenizer.ggml.mask_token_id");
                         }),
                         doctest::Contains("insist with `force_causal`"), Error);
}
