#include "tokenizer.h"

#include "buoy/message.h"
#include "hf-encoder.h"
#include "sentencepiece.h"
#include "special-tokens.h"
#include "vocab-files.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <unordered_map>

namespace buoy {

namespace {

using Json = nlohmann::json;

constexpr size_t TOKEN_BYTES_MAX = 16384;
constexpr float  SCORE_UNMERGED  = -1e6F;    // below every merge's
constexpr float  SCORE_UNUSED    = -1000.0F; // what other writers put down where merges have ranks

// Control tokens of Gemma 4 that have to be shown: programs find a reply's parts by them. As llama.cpp's converter has it.
const std::vector<std::string> SHOWN = {"<|channel>",       "<channel|>",       "<|tool_call>", "<tool_call|>",
                                        "<|tool_response>", "<tool_response|>", "<|\"|>"};

int64_t checked_id(const Json & id, const std::string & text, int64_t n_vocab, const HfJson & file) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) {
        fail(file.path(), ": the id of token ", in_quotes(text), " is not a 32-bit number");
    }
    const int64_t value = id.get<int64_t>();
    if (value >= n_vocab) {
        fail(file.path(), ": token ", in_quotes(text), " has id ", value, ", the embedding has ", n_vocab, " rows");
    }
    return value;
}

void put_token(Tokenizer & out, std::vector<bool> & taken, int64_t id, const std::string & text, TokenType type,
               const HfJson & file) {
    const size_t i = static_cast<size_t>(id);
    if (text.size() > TOKEN_BYTES_MAX) {
        fail(file.path(), ": token ", id, " is ", text.size(), " bytes long, expected at most ", TOKEN_BYTES_MAX);
    }
    if (text.find('\0') != std::string::npos) {
        fail(file.path(), ": token ", id, " contains a NUL, which GGUF readers can't hold");
    }
    if (taken[i] && out.tokens[i] != text) {
        fail(file.path(), ": id ", id, " belongs to ", in_quotes(out.tokens[i]), " and to ", in_quotes(text));
    }
    taken[i]      = true;
    out.tokens[i] = text;
    out.types[i]  = type;
}

bool is_byte_token(const std::string & text) {
    return text.size() == 6 && text.compare(0, 3, "<0x") == 0 && text[5] == '>' &&
           std::isxdigit(static_cast<unsigned char>(text[3])) != 0 &&
           std::isxdigit(static_cast<unsigned char>(text[4])) != 0;
}

std::string with_spaces(const std::string & text) {
    static const std::string marker = "▁";

    std::string out = text;
    for (size_t at = out.find(marker); at != std::string::npos; at = out.find(marker, at + 1)) {
        out.replace(at, marker.size(), " ");
    }
    return out;
}

void read_added_tokens(Tokenizer & out, std::vector<bool> & taken, const HfJson & file) {
    const Json * added = file.find({"added_tokens"});
    if (added == nullptr) {
        return;
    }
    if (!added->is_array()) {
        fail(file.path(), ": 'added_tokens' is ", added->type_name(), ", expected a list");
    }
    for (const Json & entry : *added) {
        if (!entry.is_object() || !entry.contains("id") || !entry.contains("content") ||
            !entry["content"].is_string()) {
            fail(file.path(), ": an entry of 'added_tokens' has no id or content");
        }
        const std::string text    = entry["content"].get<std::string>();
        const int64_t     id      = checked_id(entry["id"], text, static_cast<int64_t>(out.tokens.size()), file);
        const bool        special = entry.contains("special") && entry["special"] == true;
        const bool        shown =
            out.pre.kind == TokenizerKind::whole_text && std::find(SHOWN.begin(), SHOWN.end(), text) != SHOWN.end();
        put_token(out, taken, id, text, special && !shown ? TokenType::control : TokenType::user_defined, file);
        if (!special && out.pre.kind == TokenizerKind::spm) {
            // libllama looks for these in the text as it is typed, before spaces become the marker.
            out.tokens[static_cast<size_t>(id)] = with_spaces(text);
        }
    }
}

// Ids nobody uses get a text of their own: libllama wants one distinct text per embedding row.
void fill_gaps(Tokenizer & out, const std::vector<bool> & taken) {
    for (size_t i = 0; i < taken.size(); ++i) {
        if (!taken[i]) {
            out.tokens[i] = concat("[PAD", i, "]");
            out.types[i]  = TokenType::unused;
        } else if (out.tokens[i].empty()) {
            out.tokens[i] = concat("[EMPTY_", i, "]");
            out.types[i]  = TokenType::unused;
        }
    }
}

std::unordered_map<std::string, int32_t> index_tokens(const Tokenizer & tokenizer, const HfJson & file) {
    std::unordered_map<std::string, int32_t> ids;
    for (size_t i = 0; i < tokenizer.tokens.size(); ++i) {
        const auto [at, fresh] = ids.emplace(tokenizer.tokens[i], static_cast<int32_t>(i));
        if (!fresh) {
            fail(file.path(), ": tokens ", at->second, " and ", i, " are both ", in_quotes(tokenizer.tokens[i]));
        }
    }
    return ids;
}

void read_vocabulary(Tokenizer & out, int64_t n_vocab, const HfJson & file) {
    const Json & model = file.json()["model"];
    if (!model.contains("vocab") || !model["vocab"].is_object() || model["vocab"].empty()) {
        fail(file.path(), ": the model has no 'vocab'");
    }
    std::vector<bool> taken(static_cast<size_t>(n_vocab));
    out.tokens.resize(static_cast<size_t>(n_vocab));
    out.types.resize(static_cast<size_t>(n_vocab), TokenType::normal);
    for (const auto & [text, id] : model["vocab"].items()) {
        const bool is_byte = out.pre.kind != TokenizerKind::byte_level && is_byte_token(text);
        put_token(out, taken, checked_id(id, text, n_vocab, file), text, is_byte ? TokenType::byte : TokenType::normal,
                  file);
    }
    read_added_tokens(out, taken, file);
    if (out.pre.kind == TokenizerKind::whole_text) {
        while (!taken.back()) { // not empty: the vocabulary has a token
            taken.pop_back();
        }
        out.tokens.resize(taken.size());
        out.types.resize(taken.size());
    }
    fill_gaps(out, taken);
}

using Pair = std::pair<std::string, std::string>;

Pair read_merge(const Json & merge, size_t rank, const HfJson & file) {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    }
    if (merge.is_string()) {
        const std::string text  = merge.get<std::string>();
        const size_t      space = text.find(' ');
        if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
            return {text.substr(0, space), text.substr(space + 1)};
        }
    }
    fail(file.path(), ": merge ", rank, " is not a pair: ", in_quotes(merge.dump()));
}

// BPE keeps the merges. libllama's "llama" tokenizer merges by the score of the result instead, so there a
// token's score is minus the rank of the first merge that makes it.
void read_merges(Tokenizer & out, const std::unordered_map<std::string, int32_t> & ids, const HfJson & file) {
    const Json & model = file.json()["model"];
    if (!model.contains("merges") || !model["merges"].is_array()) {
        fail(file.path(), ": the model has no 'merges'");
    }
    const bool spm = out.pre.kind == TokenizerKind::spm;
    if (out.pre.kind != TokenizerKind::byte_level) {
        out.scores.assign(out.tokens.size(), spm ? SCORE_UNMERGED : SCORE_UNUSED);
    }
    size_t rank = 0;
    for (const Json & merge : model["merges"]) {
        const auto [left, right] = read_merge(merge, rank, file);
        const auto joined        = ids.find(left + right);
        if (ids.count(left) == 0 || ids.count(right) == 0 || joined == ids.end()) {
            fail(file.path(), ": merge ", rank, " of ", in_quotes(left), " and ", in_quotes(right),
                 ": the vocabulary lacks a part or the result");
        }
        if (spm) {
            float & score = out.scores[static_cast<size_t>(joined->second)];
            score         = std::max(score, -static_cast<float>(rank));
        } else if (left.empty() || right.empty() || left.find(' ') != std::string::npos ||
                   right.find(' ') != std::string::npos) {
            fail(file.path(), ": merge ", rank, " of ", in_quotes(left), " and ", in_quotes(right),
                 ": an empty part or one with a space");
        } else {
            out.merges.push_back(concat(left, ' ', right));
        }
        ++rank;
    }
}

// Taking a word that is a token as it is, is what merging its characters gives.
void check_merges(const HfJson & file) {
    const HfEncoder encoder(file);
    for (const auto & [text, id] : file.json()["model"]["vocab"].items()) {
        if (!encoder.makes(text)) {
            fail(file.path(), ": the merges do not make token ", id.dump(), " (", in_quotes(text),
                 "), so libllama, which ignores merges for whole words, would read it differently");
        }
    }
}

// libllama cuts a whole text into lines and runs of line ends, and takes a run that is a token as it is.
void check_lines(const HfJson & file, const LogCallback & log) {
    const HfEncoder encoder(file);
    for (const auto & [text, id] : file.json()["model"]["vocab"].items()) {
        const bool has_end = text.find('\n') != std::string::npos;
        const bool is_run  = text.find_first_not_of('\n') == std::string::npos;
        if (has_end && encoder.makes(text) != is_run && log) {
            log(LogLevel::warn, concat(file.path(), ": token ", id.dump(), " (", in_quotes(text), ") is ",
                                       is_run ? "never" : "also", " made by the merges, but ",
                                       is_run ? "always" : "never", " by libllama, which cuts at line ends"));
        }
    }
}

HfJson load_tokenizer(const std::string & dir) {
    std::optional<HfJson> file = HfJson::load_if_present((std::filesystem::path(dir) / "tokenizer.json").string());
    if (!file) {
        file = tokenizer_from_vocab_files(dir);
    }
    if (!file) {
        fail(dir, ": no tokenizer.json, no tokenizer.model, nor vocab.json with merges.txt and tokenizer_config.json");
    }
    return *std::move(file);
}

} // namespace

namespace {

// Without a tokenizer.json, as Llama 2 was first published; such tokenizers put <s> first unless tokenizer_config.json denies it.
Tokenizer read_tokenizer_model(const std::string & path, const std::string & dir, const HfJson & config,
                               int64_t n_vocab, const LogCallback & log) {
    const Json   begin = {{"SpecialToken", {{"id", "<s>"}}}};
    const Json   text  = {{"Sequence", {{"id", "A"}}}};
    const HfJson file(path, {{"post_processor", {{"type", "TemplateProcessing"}, {"single", {begin, text}}}}});

    Tokenizer out;
    read_sentencepiece(out, path, n_vocab);
    read_special_tokens(out, index_tokens(out, file), dir, file, config, log);
    read_chat_template(out, dir);
    return out;
}

} // namespace

Tokenizer read_tokenizer(const std::string & dir, const HfJson & config, int64_t n_vocab, const LogCallback & log) {
    const std::filesystem::path place(dir);
    const std::string           model = (place / "tokenizer.model").string();
    std::error_code             error;
    if (std::filesystem::exists(model, error) && !std::filesystem::exists(place / "tokenizer.json", error)) {
        return read_tokenizer_model(model, dir, config, n_vocab, log);
    }
    const HfJson file = load_tokenizer(dir);

    Tokenizer out;
    out.pre = recognise_pre_tokenizer(file);
    read_vocabulary(out, n_vocab, file);
    const auto ids = index_tokens(out, file);
    read_merges(out, ids, file);
    if (out.pre.needs_merges) {
        check_merges(file);
    }
    if (out.pre.kind == TokenizerKind::whole_text) {
        check_lines(file, log);
    }
    read_special_tokens(out, ids, dir, file, config, log);
    read_chat_template(out, dir);
    out.file = file;
    return out;
}

} // namespace buoy
