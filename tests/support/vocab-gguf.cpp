#include "support/vocab-gguf.h"

#include <ggml-cpp.h>
#include <gguf.h>

#include <cstdio>
#include <stdexcept>

namespace buoy::test {

namespace {

std::string utf8(uint32_t code) {
    if (code < 0x80) {
        return std::string(1, static_cast<char>(code));
    }
    return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

void set_strings(gguf_context * gguf, const char * key, const std::vector<std::string> & values) {
    std::vector<const char *> pointers;
    pointers.reserve(values.size());
    for (const std::string & value : values) {
        pointers.push_back(value.c_str());
    }
    gguf_set_arr_str(gguf, key, pointers.data(), pointers.size());
}

} // namespace

uint32_t VocabGguf::add(const std::string & token, int32_t type) {
    tokens.push_back(token);
    types.push_back(type);
    return static_cast<uint32_t>(tokens.size() - 1);
}

void VocabGguf::set_keys(gguf_context * gguf) const {
    gguf_set_val_str(gguf, "general.architecture", arch.c_str());
    gguf_set_val_str(gguf, "tokenizer.ggml.model", model.c_str());
    gguf_set_val_str(gguf, "tokenizer.ggml.pre", pre.c_str());
    set_strings(gguf, "tokenizer.ggml.tokens", tokens);
    if (!types.empty()) {
        gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(), types.size());
    }
    if (model == "gpt2" || !merges.empty()) {
        set_strings(gguf, "tokenizer.ggml.merges", merges);
    }
    for (const auto & [key, value] : strings) {
        gguf_set_val_str(gguf, key.c_str(), value.c_str());
    }
    for (const auto & [name, id] : ids) {
        gguf_set_val_u32(gguf, ("tokenizer.ggml." + name + "_token_id").c_str(), id);
    }
    for (const auto & [name, value] : flags) {
        gguf_set_val_bool(gguf, ("tokenizer.ggml." + name).c_str(), value);
    }
}

void VocabGguf::write(const std::string & path) const {
    const gguf_context_ptr gguf(gguf_init_empty());
    set_keys(gguf.get());
    if (!gguf_write_to_file(gguf.get(), path.c_str(), true)) {
        throw std::runtime_error("cannot write " + path);
    }
}

VocabGguf small_vocab() {
    VocabGguf vocab;
    uint32_t  stand_in = 0x100; // of the bytes that do not print, in their order
    for (uint32_t byte = 0; byte < 256; byte++) {
        const bool prints = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
        vocab.add(utf8(prints ? byte : stand_in++));
    }
    vocab.add("he");
    vocab.add("Ġt");
    vocab.merges                 = {"h e", "Ġ t"};
    vocab.ids["bos"]             = vocab.add("<|im_start|>", 3);
    vocab.ids["eos"]             = vocab.add("<|im_end|>", 3);
    vocab.ids["mask"]            = vocab.add("<|mask|>", 3);
    vocab.flags["add_bos_token"] = false;
    return vocab;
}

VocabGguf sentencepiece_vocab() {
    VocabGguf file;
    file.model = "llama";
    file.pre   = "default";
    file.add("<unk>", 2);
    file.add("<s>", 3);
    file.add("</s>", 3);
    return file;
}

void add_byte_pieces(VocabGguf & file) {
    for (int byte = 0; byte < 256; byte++) {
        char name[8];
        std::snprintf(name, sizeof(name), "<0x%02X>", static_cast<unsigned>(byte));
        file.add(name, 6);
    }
}

} // namespace buoy::test
