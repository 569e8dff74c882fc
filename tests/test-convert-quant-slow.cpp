#include "buoy/message.h"
#include "convert.h"

#include "buoy/error.h"
#include "buoy/random-model.h"
#include "imatrix.h"
#include "io/gguf-file.h"
#include "model/quant-mix.h"
#include "support/fuzz.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "text/llama-handles.h"

#include <doctest/doctest.h>
#include <llama.h>

using namespace buoy;
using namespace buoy::test;

// The yardstick is libllama's own quantiser on the same F32 file: every tensor's type and every byte must be the same.

namespace {

constexpr std::pair<OutType, llama_ftype> MIXES[] = {
    {OutType::f16, LLAMA_FTYPE_MOSTLY_F16},       {OutType::bf16, LLAMA_FTYPE_MOSTLY_BF16},
    {OutType::q8_0, LLAMA_FTYPE_MOSTLY_Q8_0},     {OutType::q6_k, LLAMA_FTYPE_MOSTLY_Q6_K},
    {OutType::q5_k_m, LLAMA_FTYPE_MOSTLY_Q5_K_M}, {OutType::q4_k_m, LLAMA_FTYPE_MOSTLY_Q4_K_M},
    {OutType::iq4_xs, LLAMA_FTYPE_MOSTLY_IQ4_XS}, {OutType::q4_0, LLAMA_FTYPE_MOSTLY_Q4_0},
    {OutType::q3_k_m, LLAMA_FTYPE_MOSTLY_Q3_K_M},
};

llama_ftype ftype_of(OutType outtype) {
    for (const auto & [ours, theirs] : MIXES) {
        if (ours == outtype) {
            return theirs;
        }
    }
    return LLAMA_FTYPE_ALL_F32;
}

std::string random_gguf(const std::string & spec) {
    const std::string path = temp_dir() + "/f32.gguf";
    write_random_model(parse_random_model(spec), path);
    return path;
}

std::string upstream(const std::string & input, llama_model_quantize_params params) {
    const std::string output = temp_dir() + "/upstream.gguf";
    const LlamaScope  scope;
    params.nthread = 2;
    REQUIRE(llama_model_quantize(input.c_str(), output.c_str(), &params) == 0);
    return output;
}

std::string ours(ConvertParams convert) {
    convert.output = temp_dir() + "/ours.gguf";
    convert_hf(convert);
    return convert.output;
}

std::vector<char> bytes_of(const GgufFile & file, const GgufTensor & tensor) {
    std::vector<char> bytes(static_cast<size_t>(tensor.size));
    file.file(tensor.file).read(tensor.offset, bytes.data(), bytes.size());
    return bytes;
}

void check_same_tensors(const std::string & expected_path, const std::string & found_path) {
    const GgufFile expected = GgufFile::open(expected_path);
    const GgufFile found    = GgufFile::open(found_path);
    REQUIRE(found.tensors().size() == expected.tensors().size());
    for (const GgufTensor & tensor : expected.tensors()) {
        const GgufTensor * other = found.find_tensor(tensor.name);
        INFO("tensor ", tensor.name, " expected ", ggml_type_name(tensor.type));
        REQUIRE(other != nullptr);
        REQUIRE(std::string(ggml_type_name(other->type)) == ggml_type_name(tensor.type));
        REQUIRE(other->ne == tensor.ne);
        const bool same = bytes_of(found, *other) == bytes_of(expected, tensor);
        CHECK(same);
    }
    CHECK(found.get_int("general.file_type") == expected.get_int("general.file_type"));
}

void check_against_upstream(const std::string & input, OutType outtype) {
    INFO("outtype ", mix_of(outtype).name);
    llama_model_quantize_params params = llama_model_quantize_default_params();
    params.ftype                       = ftype_of(outtype);

    ConvertParams convert;
    convert.input     = input;
    convert.outtype   = outtype;
    convert.n_threads = 2;
    check_same_tensors(upstream(input, params), ours(convert));
}

// Something about every matrix that either quantiser may meet, different in every column.
std::unordered_map<std::string, ImatrixSums> made_up_sums(const std::string & path) {
    Random                                       random(7);
    std::unordered_map<std::string, ImatrixSums> sums;
    const GgufFile                               file = GgufFile::open(path);
    for (const GgufTensor & tensor : file.tensors()) {
        if (tensor.n_dims < 2) {
            continue;
        }
        ImatrixSums & entry = sums[tensor.name];
        entry.counts.assign(static_cast<size_t>(tensor.ne[2]), 4);
        for (int64_t i = 0; i < tensor.ne[0] * tensor.ne[2]; ++i) {
            entry.squares.push_back(static_cast<float>(1 + below(random, 1000)) / 100);
        }
    }
    return sums;
}

} // namespace

namespace {

// Gemma 4's tensors with DiffusionGemma's besides. libllama's quantiser wants an architecture that it knows; of Gemma 4 it has no rules
// of its own, so the two names should make no difference.
std::string gemma_gguf(const std::string & arch, int64_t n_expert, int64_t n_layer) {
    constexpr int64_t n_embd = 256, n_ff = 512, n_ff_expert = 256, n_vocab = 300;

    GgufBytes file = parse_gguf(read_file(random_gguf("llama:E=256,L=1,H=4,HKV=1,FF=256,V=300,TIED=1")));
    file.tensors.clear();
    file.erase_pair("general.architecture");
    file.text("general.architecture", arch);
    const auto size = [&](const std::string & key, int64_t value) {
        file.u32(arch + key, static_cast<uint32_t>(value));
    };
    size(".block_count", n_layer);
    size(".context_length", 64);
    size(".embedding_length", n_embd);
    size(".embedding_length_per_layer_input", 0);
    size(".feed_forward_length", n_ff);
    size(".expert_count", n_expert);
    size(".expert_used_count", 2);
    size(".expert_feed_forward_length", n_ff_expert);
    size(".attention.head_count", 8);
    size(".attention.key_length", 64);
    size(".attention.value_length", 64);
    size(".attention.key_length_swa", 32);
    size(".attention.value_length_swa", 32);
    size(".attention.sliding_window", 16);
    file.f32(arch + ".attention.layer_norm_rms_epsilon", 1e-6F);
    std::string n_kv, sliding;
    for (int64_t layer = 0; layer < n_layer; layer++) {
        const bool global = layer % 3 == 2;
        n_kv += le<int32_t>(global ? 1 : 2); // a quarter of the heads at first
        sliding += le<int8_t>(global ? 0 : 1);
    }
    file.array(arch + ".attention.head_count_kv", GGUF_TYPE_INT32, static_cast<uint64_t>(n_layer), n_kv);
    file.array(arch + ".attention.sliding_window_pattern", GGUF_TYPE_BOOL, static_cast<uint64_t>(n_layer), sliding);

    Random     random(11);
    const auto tensor = [&](const std::string & name, const std::vector<int64_t> & dims) {
        file.tensor(name, GGML_TYPE_F32, dims);
        std::string & data = file.tensor(name).data;
        for (size_t at = 0; at < data.size(); at += 4) {
            data.replace(at, 4, le(static_cast<float>(below(random, 2001)) / 1000 - 1));
        }
    };
    tensor("token_embd.weight", {n_embd, n_vocab});
    tensor("output_norm.weight", {n_embd});
    tensor("self_cond_pre_norm.weight", {n_embd});
    tensor("self_cond_gate.weight", {n_embd, n_ff});
    tensor("self_cond_up.weight", {n_embd, n_ff});
    tensor("self_cond_down.weight", {n_ff, n_embd});
    for (int64_t layer = 0; layer < n_layer; layer++) {
        const std::string block  = concat("blk.", layer, ".");
        const bool        global = layer % 3 == 2;
        const int64_t     n_q    = global ? 512 : 256;
        tensor(block + "attn_norm.weight", {n_embd});
        tensor(block + "attn_q.weight", {n_embd, n_q});
        tensor(block + "attn_k.weight", {n_embd, 64});
        if (!global) {
            tensor(block + "attn_v.weight", {n_embd, 64});
        }
        tensor(block + "attn_output.weight", {n_q, n_embd});
        tensor(block + "ffn_gate.weight", {n_embd, n_ff});
        tensor(block + "ffn_up.weight", {n_embd, n_ff});
        tensor(block + "ffn_down.weight", {n_ff, n_embd});
        tensor(block + "post_ffw_norm_1.weight", {n_embd});
        tensor(block + "ffn_gate_inp.weight", {n_embd, n_expert});
        tensor(block + "ffn_gate_inp.scale", {n_embd});
        tensor(block + "ffn_gate_up_exps.weight", {n_embd, 2 * n_ff_expert, n_expert});
        tensor(block + "ffn_down_exps.weight", {n_ff_expert, n_embd, n_expert});
        tensor(block + "ffn_down_exps.scale", {n_expert});
        tensor(block + "layer_output_scale.weight", {1});
        tensor(block + "enc_layer_output_scale.weight", {1});
    }
    return test::write_file(temp_dir(), arch + ".gguf", file.build());
}

} // namespace

TEST_CASE("quantised like upstream: DiffusionGemma as Gemma 4") {
    for (const auto & [n_expert, n_layer] : {std::pair<int64_t, int64_t>{8, 3}, std::pair<int64_t, int64_t>{4, 9}}) {
        const std::string theirs = gemma_gguf("gemma4", n_expert, n_layer);
        ConvertParams     convert;
        convert.input = gemma_gguf("diffusion-gemma", n_expert, n_layer);
        for (const OutType outtype :
             {OutType::q8_0, OutType::q5_k_m, OutType::q4_k_m, OutType::q4_0, OutType::q3_k_m, OutType::iq4_xs}) {
            INFO("outtype ", mix_of(outtype).name, ", experts ", n_expert);
            llama_model_quantize_params params = llama_model_quantize_default_params();
            params.ftype                       = ftype_of(outtype);
            convert.outtype                    = outtype;
            check_same_tensors(upstream(theirs, params), ours(convert));
        }
    }
}

TEST_CASE("quantised like upstream: every type") {
    const std::string input = random_gguf("llama:E=256,L=2,H=4,HKV=2,FF=512,V=300");
    for (const auto & mix : MIXES) {
        check_against_upstream(input, mix.first);
    }
}

TEST_CASE("quantised like upstream: the mixes by layer") {
    const std::string input = random_gguf("llama:E=256,L=17,H=4,HKV=1,FF=256,V=300");
    for (const OutType outtype : {OutType::q3_k_m, OutType::q4_k_m, OutType::q5_k_m, OutType::iq4_xs}) {
        check_against_upstream(input, outtype);
    }
}

TEST_CASE("quantised like upstream: architectures, tied weights, odd widths") {
    for (const char * spec :
         {"llada:E=256,L=3,H=4,FF=320,V=300", "dream:E=256,L=3,H=8,HKV=2,FF=256,V=300",
          "qwen2:E=96,L=2,H=4,HKV=1,FF=160,V=300", "qwen3:E=256,L=2,H=4,HKV=2,D=32,FF=256,V=300,TIED=1",
          "llama:E=96,L=2,H=4,FF=100,V=300,TIED=1", "qwen3moe:E=256,L=4,H=4,HKV=2,X=8,FX=256,V=300",
          "llada-moe:E=256,L=3,H=4,X=4,FX=256,V=300"}) {
        INFO(spec);
        const std::string input = random_gguf(spec);
        for (const OutType outtype :
             {OutType::q8_0, OutType::q4_0, OutType::q4_k_m, OutType::q3_k_m, OutType::iq4_xs}) {
            check_against_upstream(input, outtype);
        }
    }
}

TEST_CASE("quantised like upstream: random models that are made as a mix") {
    for (const char * spec : {"llada:E=256,L=9,H=4,FF=320,V=300", "qwen3:E=256,L=3,H=4,HKV=1,D=64,FF=256,V=300,TIED=1",
                              "qwen3moe:E=256,L=4,H=4,HKV=2,X=8,FX=256,V=300", "llama:E=96,L=2,H=4,FF=100,V=300"}) {
        const std::string f32 = random_gguf(spec);
        for (const OutType outtype : {OutType::q3_k_m, OutType::q4_k_m, OutType::q5_k_m}) {
            INFO(spec, " ", mix_of(outtype).name);
            const std::string           made   = random_gguf(concat(spec, ",TYPE=", mix_of(outtype).name));
            llama_model_quantize_params params = llama_model_quantize_default_params();
            params.ftype                       = ftype_of(outtype);
            check_same_tensors(upstream(f32, params), made);
        }
    }
}

TEST_CASE("quantised like upstream: with an importance matrix") {
    const std::string input = random_gguf("llama:E=256,L=8,H=4,HKV=1,FF=256,V=300");
    const std::string file  = temp_dir() + "/imatrix.gguf";
    const auto        sums  = made_up_sums(input);
    save_imatrix(file, false, sums, "text", 1, 512);

    std::unordered_map<std::string, std::vector<float>> means;
    std::vector<llama_model_imatrix_data>               list;
    for (const auto & [name, entry] : sums) {
        for (const float square : entry.squares) {
            means[name].push_back(square / 4);
        }
    }
    for (const auto & [name, values] : means) {
        list.push_back({name.c_str(), values.data(), values.size()});
    }
    list.push_back({nullptr, nullptr, 0});

    for (const OutType outtype : {OutType::q4_0, OutType::q4_k_m, OutType::iq4_xs, OutType::q3_k_m}) {
        INFO("outtype ", mix_of(outtype).name);
        llama_model_quantize_params params = llama_model_quantize_default_params();
        params.ftype                       = ftype_of(outtype);
        params.imatrix                     = list.data();
        ConvertParams convert;
        convert.input          = input;
        convert.outtype        = outtype;
        convert.imatrix        = file;
        const std::string path = ours(convert);
        check_same_tensors(upstream(input, params), path);
        CHECK(GgufFile::open(path).get_string("quantize.imatrix.file") == "imatrix.gguf");
    }
}

TEST_CASE("quantised like upstream: types chosen by name, and from F16") {
    const std::string                 input    = random_gguf("llama:E=256,L=3,H=4,FF=256,V=300,TYPE=f16");
    const llama_model_tensor_override chosen[] = {
        {"attn_v", GGML_TYPE_Q8_0}, {"blk\\.1\\.ffn", GGML_TYPE_Q5_1}, {nullptr, GGML_TYPE_COUNT}};
    llama_model_quantize_params params = llama_model_quantize_default_params();
    params.ftype                       = LLAMA_FTYPE_MOSTLY_Q4_K_M;
    params.tt_overrides                = chosen;
    ConvertParams convert;
    convert.input        = input;
    convert.outtype      = OutType::q4_k_m;
    convert.tensor_types = {"attn_v=q8_0", "blk\\.1\\.ffn=Q5_1"};
    check_same_tensors(upstream(input, params), ours(convert));

    convert.tensor_types = {"nothing_like_it=q8_0"};
    CHECK_THROWS_WITH_AS(ours(convert), doctest::Contains("no tensor that may be quantised"), Error);
    convert.tensor_types = {"attn_v=q9"};
    CHECK_THROWS_WITH_AS(ours(convert), doctest::Contains("'q9' is not known"), Error);
    convert.tensor_types = {"(=q8_0"};
    CHECK_THROWS_WITH_AS(ours(convert), doctest::Contains("not a regular expression"), Error);
}
