#include "text/vocab-keys.h"

#include "buoy/message.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace buoy {

namespace {

// Real vocabularies stay below 1 kB; libllama's tries recurse once per byte, and some of its tokenizers keep every end of every token.
constexpr size_t token_length_max       = 16384;
constexpr size_t token_length_max_other = 1024; // where it is not one of the tokenizers checked here

// libllama spells a character outside of the byte alphabet out as the whole token, so such tokens grow quadratically.
constexpr uint64_t foreign_bytes_max = 1u << 28;

constexpr int64_t token_type_normal = 1;
constexpr int64_t token_type_byte   = 6;

const std::string key_tokens = "tokenizer.ggml.tokens";
const std::string key_types  = "tokenizer.ggml.token_type";
const std::string key_merges = "tokenizer.ggml.merges";
const std::string key_scores = "tokenizer.ggml.scores";

using TokenSet = std::unordered_set<std::string_view>;

std::vector<std::string> read_tokens(const GgufFile & gguf, size_t length_max) {
    auto tokens = gguf.get_string_array(key_tokens);
    if (!tokens || tokens->empty()) {
        fail(printable(gguf.paths()[0]), ": ", key_tokens, " is ", tokens ? "empty" : "missing",
             ", expected the vocabulary");
    }
    if (tokens->size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
        fail(printable(gguf.paths()[0]), ": ", key_tokens, " has ", tokens->size(),
             " entries, expected less than 2^31");
    }
    for (size_t id = 0; id < tokens->size(); id++) {
        std::string & token = (*tokens)[id];
        token.resize(std::min(token.find('\0'), token.size())); // libllama reads no further
        if (token.size() > length_max) {
            fail(printable(gguf.paths()[0]), ": ", key_tokens, "[", id, "] is ", token.size(),
                 " bytes long, expected at most ", length_max);
        }
        if (token.empty()) {
            token = concat("[EMPTY_", id, "]"); // the name that libllama gives it
        }
    }
    return std::move(*tokens);
}

TokenSet index_tokens(const GgufFile & gguf, const std::vector<std::string> & tokens) {
    TokenSet set;
    set.reserve(tokens.size());
    for (size_t id = 0; id < tokens.size(); id++) {
        if (!set.insert(tokens[id]).second) {
            fail(printable(gguf.paths()[0]), ": ", key_tokens, "[", id, "] = ", in_quotes(tokens[id]),
                 " occurs twice, expected unique tokens");
        }
    }
    return set;
}

// The printable stand-ins for the 256 bytes: U+0021…7E, U+00A1…AC, U+00AE…FF as themselves, the rest from U+0100 on.
uint64_t count_foreign_bytes(const std::string & token) {
    uint64_t n = 0;
    for (size_t i = 0; i < token.size(); i++) {
        const auto c    = static_cast<unsigned char>(token[i]);
        const auto next = i + 1 < token.size() ? static_cast<unsigned char>(token[i + 1]) : 0u;
        const auto code = ((c & 0x1Fu) << 6) | (next & 0x3Fu);
        const bool two  = c >= 0xC2 && c <= 0xC5 && (next & 0xC0u) == 0x80u;
        if (two && code >= 0xA1 && code <= 0x143 && code != 0xAD) {
            i++;
        } else if (c < 0x21 || c > 0x7E) {
            n++;
        }
    }
    return n;
}

// NaN has no place in an order, and the tokens to merge are taken in the order of their scores.
void check_scores(const GgufFile & gguf) {
    const auto scores = gguf.get_float_array(key_scores);
    for (size_t i = 0; scores && i < scores->size(); i++) {
        if (std::isnan((*scores)[i])) {
            fail(printable(gguf.paths()[0]), ": ", key_scores, "[", i, "] is NaN, expected a number");
        }
    }
}

// The tokenizers of the models that we run, whose checks are here: byte-level BPE and SentencePiece. Some pre-tokenizers make BPE one of
// characters, where a space in the text is an assertion of libllama's.
bool is_checked(const VocabKeys & keys) {
    static constexpr std::array<const char *, 4> of_characters = {"gemma4", "granite-embed-multi-311m", "sarvam-moe",
                                                                  "whitespace"};
    return keys.model == "llama" || (keys.model == "gpt2" && std::find(of_characters.begin(), of_characters.end(),
                                                                       keys.pre) == of_characters.end());
}

void check_types(const GgufFile & gguf, const VocabKeys & keys, const std::vector<std::string> & tokens) {
    const auto types = gguf.get_int_array(key_types);
    if (types && types->size() != tokens.size()) {
        fail(printable(gguf.paths()[0]), ": ", key_types, " has ", types->size(),
             " entries, expected one for each of the ", tokens.size(), " tokens");
    }
    uint64_t n_foreign = 0;
    for (size_t id = 0; id < tokens.size(); id++) {
        const int64_t type = types ? (*types)[id] : token_type_normal;
        if (type == token_type_byte &&
            (tokens[id].size() != 6 || tokens[id].compare(0, 3, "<0x") != 0 || keys.model == "bert")) {
            fail(printable(gguf.paths()[0]), ": ", key_tokens, "[", id, "] = ", in_quotes(tokens[id]),
                 " is typed as a byte, expected <0x00> … <0xFF>");
        }
        if (type == token_type_normal && keys.model == "gpt2") {
            n_foreign += count_foreign_bytes(tokens[id]) * tokens[id].size();
        }
    }
    if (n_foreign > foreign_bytes_max) {
        fail(printable(gguf.paths()[0]), ": ", key_tokens,
             " is not written in the byte alphabet that tokenizer.ggml.model = gpt2 expects");
    }
}

// A merge whose parts or result are no tokens can't be applied: libllama would drop the text.
void check_merges(const GgufFile & gguf, const TokenSet & tokens) {
    const auto merges = gguf.get_string_array(key_merges);
    if (!merges) {
        return;
    }
    std::string joined;
    for (size_t i = 0; i < merges->size(); i++) {
        const std::string_view merge = (*merges)[i];
        const size_t           space = merge.find(' ', 1);
        if (space == std::string_view::npos || space + 1 >= merge.size()) {
            fail(printable(gguf.paths()[0]), ": ", key_merges, "[", i, "] = ", in_quotes(merge),
                 ", expected two tokens with a space between them");
        }
        const std::string_view left  = merge.substr(0, space);
        const std::string_view right = merge.substr(space + 1);
        joined.assign(left).append(right);
        for (const std::string_view part : {left, right, std::string_view(joined)}) {
            if (tokens.count(part) == 0) {
                fail(printable(gguf.paths()[0]), ": ", key_merges, "[", i, "] = ", in_quotes(merge),
                     " needs the token ", in_quotes(part), ", which the vocabulary lacks");
            }
        }
    }
}

// Gemma 4's BPE of characters, whose spaces libllama replaces first, so that the text holds none. What is no token is spelled in bytes:
// without these, libllama would drop it.
bool is_whole_text(const VocabKeys & keys, const TokenSet & tokens) {
    char byte[8];
    for (unsigned i = 0; i < 256; i++) {
        std::snprintf(byte, sizeof(byte), "<0x%02X>", i);
        if (tokens.count(byte) == 0) {
            return false;
        }
    }
    return keys.model == "gemma4";
}

int32_t read_special_id(const GgufFile & gguf, const char * name, int32_t n_tokens) {
    const std::string key = concat("tokenizer.ggml.", name, "_token_id");
    const auto        id  = gguf.get_int(key);
    if (!id || *id == -1 || *id == std::numeric_limits<uint32_t>::max()) {
        return -1;
    }
    if (*id < 0 || *id >= n_tokens) {
        fail(printable(gguf.paths()[0]), ": ", key, " = ", *id, ", expected less than the vocabulary's ", n_tokens);
    }
    return static_cast<int32_t>(*id);
}

// Our converter writes the normaliser down. Upstream's files do not say; the Qwen family's tokenizers all use NFC.
bool read_nfc(const GgufFile & gguf, const std::string & pre) {
    const std::string key        = "tokenizer.ggml.normalizer";
    const auto        normalizer = gguf.get_string(key);
    if (!normalizer) {
        return pre == "qwen2" || pre == "qwen35";
    }
    if (*normalizer != "nfc" && *normalizer != "none") {
        fail(printable(gguf.paths()[0]), ": ", key, " = ", in_quotes(*normalizer), ", expected nfc or none");
    }
    return *normalizer == "nfc";
}

} // namespace

VocabKeys read_vocab_keys(const GgufFile & gguf) {
    VocabKeys keys;
    keys.model   = gguf.require_string("tokenizer.ggml.model");
    keys.pre     = gguf.get_string("tokenizer.ggml.pre").value_or("");
    keys.checked = is_checked(keys);
    if (keys.model == "none" || keys.model == "no_vocab") {
        fail(printable(gguf.paths()[0]), ": tokenizer.ggml.model = ", keys.model, ", expected a file with a tokenizer");
    }

    const std::vector<std::string> tokens = read_tokens(gguf, keys.checked ? token_length_max : token_length_max_other);
    keys.n_tokens                         = static_cast<int32_t>(tokens.size());
    const TokenSet token_set              = index_tokens(gguf, tokens);
    check_types(gguf, keys, tokens);
    keys.checked = keys.checked || is_whole_text(keys, token_set);
    if (keys.model == "gpt2" || (keys.checked && keys.model == "gemma4")) {
        check_merges(gguf, token_set);
    } else if (keys.model == "llama") {
        check_scores(gguf);
    }

    keys.bos           = read_special_id(gguf, "bos", keys.n_tokens);
    keys.eos           = read_special_id(gguf, "eos", keys.n_tokens);
    keys.mask          = read_special_id(gguf, "mask", keys.n_tokens);
    keys.unknown       = read_special_id(gguf, "unknown", keys.n_tokens);
    keys.nfc           = read_nfc(gguf, keys.pre);
    keys.chat_template = gguf.get_string("tokenizer.chat_template").value_or("");
    return keys;
}

} // namespace buoy
