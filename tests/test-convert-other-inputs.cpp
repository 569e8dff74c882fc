#include "convert.h"

#include "buoy/error.h"
#include "buoy/vocab.h"
#include "io/gguf-file.h"
#include "support/hf-dir.h"
#include "support/llama-run.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

using namespace buoy;
using namespace buoy::test;

namespace {

template <typename T> std::string raw(T value) {
    return std::string(reinterpret_cast<const char *>(&value), sizeof(T));
}

std::string byte_token(int byte) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", static_cast<unsigned>(byte));
    return name;
}

// A llama2.c model of width 16 with 300 tokens; float i of the file is sin(i).
constexpr int32_t E = 16, F = 24, L = 2, H = 4, KV = 2, V = 300, C = 32;

std::string llama2c_bytes(bool tied) {
    std::string bytes = raw(E) + raw(F) + raw(L) + raw(H) + raw(KV) + raw(tied ? V : -V) + raw(C);
    const int   D     = E / H;
    const int   n     = V * E + L * (2 * E + 2 * E * E + 2 * KV * D * E + 3 * E * F) + E + C * D + (tied ? 0 : V * E);
    for (int i = 0; i < n; ++i) {
        bytes += raw(std::sin(static_cast<float>(i)));
    }
    return bytes;
}

std::string tokenizer_bin() {
    std::string bytes = raw(int32_t{8});
    for (int i = 0; i < V; ++i) {
        const std::string text = i < 3      ? "special"
                                 : i < 259  ? byte_token(i - 3)
                                 : i == 259 ? " "
                                 : i == 260 ? "a"
                                 : i == 261 ? "b"
                                 : i == 262 ? "ab"
                                 : i == 263 ? " ab"
                                            : "t" + std::to_string(i);
        bytes += raw(i < 259 ? 0.0F
                             : -static_cast<float>(i == 262   ? 1
                                                   : i == 263 ? 2
                                                              : i)) +
                 raw(static_cast<int32_t>(text.size())) + text;
    }
    return bytes;
}

std::vector<float> floats(const GgufFile & file, const std::string & name) {
    const GgufTensor * tensor = file.find_tensor(name);
    REQUIRE(tensor != nullptr);
    std::vector<float> values(static_cast<size_t>(tensor->size / 4));
    file.file(0).read(tensor->offset, values.data(), static_cast<size_t>(tensor->size));
    return values;
}

std::string field(int number, const std::string & bytes) { // length-delimited, shorter than 128 or 16384 bytes
    std::string out(1, static_cast<char>(number << 3 | 2));
    if (bytes.size() > 127) {
        out += static_cast<char>((bytes.size() & 0x7f) | 0x80);
        out += static_cast<char>(bytes.size() >> 7);
    } else {
        out += static_cast<char>(bytes.size());
    }
    return out + bytes;
}

std::string piece(const std::string & text, float score, int type) {
    return field(1, field(1, text) + "\x15" + raw(score) + "\x18" + std::string(1, static_cast<char>(type)));
}

std::string sentencepiece_bytes(int model_type) {
    std::string bytes = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3);
    for (int i = 0; i < 256; ++i) {
        bytes += piece(byte_token(i), 0, 6);
    }
    bytes += piece("ab", -1, 1) + piece("▁ab", -2, 1) + piece("▁", -3, 1) + piece("a", -4, 1) + piece("b", -5, 1);
    return bytes + field(2, "\x18" + std::string(1, static_cast<char>(model_type))) + field(3, "\x18\x01");
}

} // namespace

TEST_CASE("llama2.c: weights and tokenizer") {
    for (const bool tied : {true, false}) {
        const std::string dir = temp_dir();
        write_file(dir + "/stories.bin", llama2c_bytes(tied));
        write_file(dir + "/tokenizer.bin", tokenizer_bin());
        ConvertParams params;
        params.input   = dir + "/stories.bin";
        params.output  = dir + "/out.gguf";
        params.outtype = OutType::f32;
        convert_hf(params);

        const GgufFile file = GgufFile::open(params.output);
        CHECK(floats(file, "token_embd.weight")[17] == std::sin(17.0F));
        CHECK(floats(file, "blk.0.attn_norm.weight")[1] == std::sin(static_cast<float>(V * E + 1)));
        // both layers' norms come before the first layer's q
        CHECK(floats(file, "blk.0.attn_q.weight")[0] == std::sin(static_cast<float>(V * E + L * E)));
        CHECK(floats(file, "blk.1.attn_q.weight")[3] == std::sin(static_cast<float>(V * E + L * E + E * E + 3)));
        CHECK((file.find_tensor("output.weight") == nullptr) == tied);
        CHECK(Vocab::load(params.output).encode("ab", true, false) == std::vector<int32_t>{1, 263});
        CHECK(Vocab::load(params.output).encode("ba", false, false) == std::vector<int32_t>{259, 261, 260});
        const std::vector<float> logits = llama_logits(params.output, {1, 263, 7});
        CHECK(logits.size() == 3 * V);
        CHECK(std::isfinite(logits.back()));
    }
}

TEST_CASE("llama2.c: broken files") {
    const std::string dir = temp_dir();
    ConvertParams     params;
    params.input            = dir + "/stories.bin";
    params.output           = dir + "/out.gguf";
    const std::string good  = llama2c_bytes(true);
    const auto        fails = [&](const std::string & bytes, const char * part) {
        write_file(params.input, bytes);
        CHECK_THROWS_WITH_AS(convert_hf(params), doctest::Contains(part), Error);
        CHECK_FALSE(std::filesystem::exists(params.output));
    };
    fails(good, "no tokenizer.bin");
    write_file(dir + "/tokenizer.bin", tokenizer_bin().substr(0, 2000));
    fails(good, "tokenizer.bin");
    fails(good + "x", "1 bytes after");
    fails(good.substr(0, good.size() - 1), "ends before");
    fails(good.substr(0, 20), "too few");
    fails("PK\x03\x04" + good, "pickled weights"); // a zip from torch.save
    fails("\x80\x02}q" + good, "pickled weights");
    fails(raw(1 << 30) + good, "not a llama2.c model");
    fails(raw(0x616b3432) + good, "later version");
}

TEST_CASE("tokenizer.model: SentencePiece BPE without a tokenizer.json") {
    const HfDir       dir   = tiny_checkpoint("LlamaForCausalLM");
    const std::string input = dir.write();
    std::filesystem::remove(input + "/tokenizer.json");
    std::filesystem::remove(input + "/tokenizer_config.json");
    write_file(input + "/tokenizer.model", sentencepiece_bytes(2));
    ConvertParams params;
    params.input  = input;
    params.output = input + "/out.gguf";
    convert_hf(params);
    const Vocab vocab = Vocab::load(params.output);
    CHECK(vocab.encode("ab", true, false) == std::vector<int32_t>{1, 260});
    CHECK(vocab.encode("ba é", false, false) == std::vector<int32_t>{261, 263, 262, 261, 3 + 0xc3, 3 + 0xa9});
    CHECK(GgufFile::open(params.output).require_string("tokenizer.ggml.model") == "llama");

    params.force = true;
    write_file(input + "/tokenizer.model", sentencepiece_bytes(1));
    CHECK_THROWS_WITH_AS(convert_hf(params), doctest::Contains("expected SentencePiece BPE"), Error);
    const std::string whole = sentencepiece_bytes(2);
    for (size_t n = 1; n < whole.size(); n += 37) {
        write_file(input + "/tokenizer.model", whole.substr(0, n));
        CHECK_THROWS_AS(convert_hf(params), Error); // the type stands at the end
    }
}
