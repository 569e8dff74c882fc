#include "buoy/vocab.h"
#include "buoy/message.h"

#include "base/run-apart.h"
#include "buoy/error.h"
#include "buoy/utf8.h"
#include "io/gguf-file.h"
#include "text/chat-template.h"
#include "text/llama-handles.h"
#include "text/special-tokens.h"
#include "text/unknown-text.h"
#include "text/vocab-keys.h"
#include "text/word-chunks.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>

namespace buoy {

namespace {

llama_model_kv_override override_string(const char * key, const char * value) {
    llama_model_kv_override entry{};
    entry.tag = LLAMA_KV_OVERRIDE_TYPE_STR;
    std::strncpy(entry.key, key, sizeof(entry.key) - 1);
    std::strncpy(entry.val_str, value, sizeof(entry.val_str) - 1);
    return entry;
}

// libllama splits these names' words by std::regex, which recurses once per character. Their pattern matches exactly what
// qwen2's does ("\s*[\r\n]" and "\s*[\r\n]+" both run to the last newline of the white space), and that one has a plain loop.
bool is_bailing(const std::string & pre) { return pre == "bailingmoe" || pre == "bailingmoe2" || pre == "llada-moe"; }

// Far above what the largest vocabularies and the longest prompts take.
constexpr ApartLimits load_limits   = {.cpu_seconds = 10, .memory = uint64_t{1} << 30, .result_max = 1u << 20};
constexpr ApartLimits encode_limits = {.cpu_seconds = 10, .memory = uint64_t{1} << 30, .result_max = 256u << 20};

const char * end_text(ApartResult::End end) {
    return end == ApartResult::End::too_long    ? "takes too long"
           : end == ApartResult::End::too_large ? "needs too much memory"
                                                : "crashes";
}

LlamaModelPtr load_tokenizer(const GgufFile & gguf, const VocabKeys & keys) {
    // libllama refuses architectures that it does not know, even for the tokenizer alone; any known name will do.
    const std::array<llama_model_kv_override, 3> overrides{
        override_string("general.architecture", "llama"),
        is_bailing(keys.pre) ? override_string("tokenizer.ggml.pre", "qwen2") : llama_model_kv_override{},
        llama_model_kv_override{},
    };
    ggml_backend_dev_t no_devices[] = {nullptr};

    llama_model_params params = llama_model_default_params();
    params.vocab_only         = true;
    params.kv_overrides       = overrides.data();
    params.devices            = no_devices;
    params.n_gpu_layers       = 0;

    const auto load = [&] {
        const LlamaScope scope;
        LlamaModelPtr    model(llama_model_load_from_file(gguf.paths()[0].c_str(), params));
        if (!model) {
            fail(printable(gguf.paths()[0]),
                 ": cannot load the tokenizer: ", printable(scope.error_or("libllama gives no reason"), 400));
        }
        return model;
    };
    if (!keys.checked) { // libllama may abort on it: first where that does no harm
        const LlamaScope  ready;
        const ApartResult trial = run_apart(
            [&] {
                load();
                return std::string();
            },
            load_limits);
        if (trial.end == ApartResult::End::failed) {
            fail(trial.text);
        }
        if (trial.end != ApartResult::End::done) {
            fail(printable(gguf.paths()[0]), ": cannot load the tokenizer ", in_quotes(keys.model), ": libllama ",
                 end_text(trial.end));
        }
    }
    return load();
}

// As bytes, for another process.
std::string packed(const std::vector<int32_t> & ids) {
    return std::string(reinterpret_cast<const char *>(ids.data()), ids.size() * sizeof(int32_t));
}

std::vector<int32_t> unpacked(const std::string & bytes) {
    std::vector<int32_t> ids(bytes.size() / sizeof(int32_t));
    if (!ids.empty()) {
        std::memcpy(ids.data(), bytes.data(), ids.size() * sizeof(int32_t));
    }
    return ids;
}

std::string without(const std::string & part, std::string text) {
    if (part.empty()) {
        return text;
    }
    size_t kept = 0;
    for (size_t pos = 0; pos < text.size();) {
        if (text.compare(pos, part.size(), part) == 0) {
            pos += part.size();
        } else {
            text[kept++] = text[pos++];
        }
    }
    text.resize(kept);
    return text;
}

// One of U+FDD0 … U+FDEF, which Unicode keeps for such uses, that no content holds.
std::string unused_noncharacter(const std::vector<ChatMessage> & messages) {
    std::string guard = "\xEF\xB7\x90";
    while (guard != "\xEF\xB7\xAF" && std::any_of(messages.begin(), messages.end(), [&](const ChatMessage & message) {
               return message.content.find(guard) != std::string::npos;
           })) {
        guard[2]++;
    }
    return guard;
}

} // namespace

struct Vocab::Impl {
    std::string                 path;
    VocabKeys                   keys;
    LlamaModelPtr               model;
    const llama_vocab *         vocab;
    bool                        bpe;
    int32_t                     bos; // -1 where the model has none
    int32_t                     eos;
    SpecialTokens               special;
    UnknownText                 unknown;
    std::optional<ChatTemplate> chat;
    std::string                 chat_error; // why the template cannot be used

    Impl(const GgufFile & gguf, VocabKeys && checked)
        : path(gguf.paths()[0]), keys(std::move(checked)), model(load_tokenizer(gguf, keys)),
          vocab(llama_model_get_vocab(model.get())), bpe(llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_BPE),
          bos(special_id(keys.bos, llama_vocab_bos(vocab))), eos(special_id(keys.eos, llama_vocab_eos(vocab))),
          special(vocab), unknown(vocab, keys.unknown) {
        try {
            if (!keys.chat_template.empty()) {
                chat.emplace(printable(path), keys.chat_template, piece(bos, true), piece(eos, true));
            }
        } catch (const Error & error) {
            chat_error = error.what(); // who does not chat can do without
        }
    }

    // Without a key libllama falls back to SentencePiece's or BERT's usual ids; for BPE that would be an arbitrary token.
    int32_t special_id(int32_t key, int32_t fallback) const { return key >= 0 || bpe ? key : fallback; }

    bool has(int32_t id) const { return id >= 0 && id < keys.n_tokens; }

    std::string piece(int32_t id, bool show_special) const {
        if (!has(id)) {
            return "";
        }
        std::string text(32, '\0');
        int32_t n = llama_token_to_piece(vocab, id, text.data(), static_cast<int32_t>(text.size()), 0, show_special);
        if (n < 0) {
            text.resize(static_cast<size_t>(-n));
            n = llama_token_to_piece(vocab, id, text.data(), -n, 0, show_special);
        }
        text.resize(static_cast<size_t>(std::max(n, 0)));
        return text;
    }

    // Appends the tokens of text that holds no special tokens.
    void tokenize_plain(const std::string & text, std::vector<int32_t> & ids) const {
        if (!unknown.is_needed()) {
            tokenize_known(text, ids);
            return;
        }
        const auto [known, is_unknown] = unknown.replace(text);
        const size_t n_before          = ids.size();
        tokenize_known(known, ids);
        unknown.restore(is_unknown, ids.data() + n_before, ids.data() + ids.size());
    }

    void tokenize_known(const std::string & text, std::vector<int32_t> & ids) const {
        if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max() / 2)) {
            fail("the text has ", text.size(), " bytes, expected at most 1 GiB");
        }
        const auto           length = static_cast<int32_t>(text.size());
        std::vector<int32_t> out(text.size() + 8);

        int32_t n =
            llama_tokenize(vocab, text.data(), length, out.data(), static_cast<int32_t>(out.size()), false, false);
        if (n < 0) {
            out.resize(static_cast<size_t>(-n));
            n = llama_tokenize(vocab, text.data(), length, out.data(), -n, false, false);
        }
        ids.insert(ids.end(), out.begin(), out.begin() + n);
    }

    // The guard, if any, is no part of the text: it only keeps special tokens apart.
    void tokenize(const std::string & text, const SpecialTokens::Allowed & allowed, const std::string & guard,
                  std::vector<int32_t> & ids) const {
        if (keys.checked) {
            tokenize_here(text, allowed, guard, ids);
            return;
        }
        const ApartResult result = run_apart(
            [&] {
                std::vector<int32_t> found;
                tokenize_here(text, allowed, guard, found);
                return packed(found);
            },
            encode_limits);
        if (result.end == ApartResult::End::failed) {
            fail(result.text);
        }
        if (result.end != ApartResult::End::done) {
            fail(printable(path), ": the tokenizer ", in_quotes(keys.model), " cannot encode the text: libllama ",
                 end_text(result.end));
        }
        const std::vector<int32_t> found = unpacked(result.text);
        if (std::any_of(found.begin(), found.end(), [&](int32_t id) { return !has(id); })) {
            fail(printable(path), ": the tokenizer ", in_quotes(keys.model), " has no token for some of the text");
        }
        ids.insert(ids.end(), found.begin(), found.end());
    }

    void tokenize_here(const std::string & text, const SpecialTokens::Allowed & allowed, const std::string & guard,
                       std::vector<int32_t> & ids) const {
        const LlamaScope scope;
        try {
            for (const TextSegment & segment : special.split(text, allowed)) {
                if (segment.id >= 0) {
                    ids.push_back(segment.id);
                    continue;
                }
                // Normalised stretch by stretch, so that a mark never fuses with the special token before it.
                const std::string stretch = without(guard, text.substr(segment.first, segment.last - segment.first));
                const std::string plain   = keys.nfc ? utf8_nfc(stretch) : stretch;
                if (!bpe || splits_in_loop(keys.pre)) {
                    tokenize_plain(plain, ids);
                    continue;
                }
                for (const std::string_view chunk : word_chunks(plain)) {
                    tokenize_plain(std::string(chunk), ids);
                }
            }
        } catch (const Error &) {
            throw;
        } catch (const std::exception & error) {
            fail(printable(path), ": the tokenizer cannot encode the text: ", printable(error.what(), 400));
        }
    }

    RenderedChat render(const std::vector<ChatMessage> & messages, bool add_generation_prompt) const {
        if (!chat_error.empty()) {
            fail(chat_error);
        }
        if (!chat) {
            fail(printable(path),
                 ": tokenizer.chat_template is missing, expected a chat template to render messages with");
        }
        return chat->render(messages, add_generation_prompt);
    }
};

Vocab Vocab::load(const std::string & gguf_path) { return load(GgufFile::open(gguf_path)); }

Vocab Vocab::load(const GgufFile & file) {
    Vocab vocab;
    vocab.impl_ = std::make_shared<const Impl>(file, read_vocab_keys(file));
    return vocab;
}

int32_t Vocab::size() const { return impl_->keys.n_tokens; }

std::vector<int32_t> Vocab::encode(const std::string & text, bool add_special, bool parse_special) const {
    const bool           wpm = llama_vocab_type(impl_->vocab) == LLAMA_VOCAB_TYPE_WPM;
    std::vector<int32_t> ids;
    if (add_special && impl_->bos >= 0 && (wpm || llama_vocab_get_add_bos(impl_->vocab))) {
        ids.push_back(impl_->bos);
    }
    impl_->tokenize(
        utf8_repair(text), [=](size_t, size_t) { return parse_special; }, "", ids);
    if (add_special && wpm && llama_vocab_sep(impl_->vocab) >= 0) {
        ids.push_back(llama_vocab_sep(impl_->vocab));
    } else if (add_special && impl_->eos >= 0 && llama_vocab_get_add_eos(impl_->vocab)) {
        ids.push_back(impl_->eos);
    }
    return ids;
}

std::string Vocab::piece(int32_t id, bool special) const { return impl_->piece(id, special); }

std::string Vocab::decode(const std::vector<int32_t> & ids, bool special) const {
    std::string bytes;
    if (impl_->bpe) {
        for (const int32_t id : ids) {
            bytes += impl_->piece(id, special);
        }
        return utf8_repair(bytes);
    }
    // SentencePiece and its like write a space before the first word, which libllama takes from the first token shown.
    std::vector<int32_t> shown;
    std::copy_if(ids.begin(), ids.end(), std::back_inserter(shown),
                 [&](int32_t id) { return impl_->has(id) && (special || !llama_vocab_is_control(impl_->vocab, id)); });
    const auto n_shown = static_cast<int32_t>(shown.size());

    int32_t n = llama_detokenize(impl_->vocab, shown.data(), n_shown, nullptr, 0, false, special);
    bytes.resize(static_cast<size_t>(std::abs(n)));
    n = llama_detokenize(impl_->vocab, shown.data(), n_shown, bytes.data(), std::abs(n), false, special);
    bytes.resize(static_cast<size_t>(std::max(n, 0)));
    return utf8_repair(bytes);
}

int32_t Vocab::bos() const { return impl_->bos; }

int32_t Vocab::eos() const { return impl_->eos; }

int32_t Vocab::mask() const { return impl_->keys.mask; }

bool Vocab::is_end(int32_t id) const {
    // libllama counts its fallback for a missing EOS among the ends.
    const bool is_fallback = impl_->eos < 0 && id == llama_vocab_eos(impl_->vocab);
    return impl_->has(id) && !is_fallback && llama_vocab_is_eog(impl_->vocab, id);
}

std::vector<int32_t> Vocab::end_ids() const {
    std::vector<int32_t> ids;
    for (int32_t id = 0; id < size(); id++) {
        if (is_end(id)) {
            ids.push_back(id);
        }
    }
    return ids;
}

bool Vocab::has_chat_template() const { return !impl_->keys.chat_template.empty(); }

std::string Vocab::render_chat(const std::vector<ChatMessage> & messages, bool add_generation_prompt) const {
    return impl_->render(messages, add_generation_prompt).text;
}

std::vector<int32_t> Vocab::encode_chat(const std::vector<ChatMessage> & messages, bool add_generation_prompt) const {
    // Two locks: the template engine marks what it copies from a content, but some filters lose the mark; and control tokens
    // in a content are broken up by a character that means nothing, which is taken out again after they were looked for.
    const std::string        guard = unused_noncharacter(messages);
    std::vector<ChatMessage> safe  = messages;
    for (ChatMessage & message : safe) {
        message.content = impl_->special.guarded(utf8_repair(message.content), guard);
    }
    const RenderedChat   chat = impl_->render(safe, add_generation_prompt);
    std::vector<int32_t> ids;
    impl_->tokenize(
        chat.text, [&](size_t first, size_t last) { return !chat.is_typed(first, last); }, guard, ids);
    return ids;
}

} // namespace buoy
