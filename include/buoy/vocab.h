#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace buoy {

class GgufFile;

struct ChatMessage {
    std::string role; // system, user, assistant
    std::string content;
};

// The tokenizer and chat template of a GGUF file, of any architecture. Copies share one tokenizer.
class Vocab {
public:
    static Vocab load(const std::string & gguf_path);
    static Vocab load(const GgufFile & file);

    int32_t size() const;

    // add_special: BOS/EOS as the model wants them; parse_special: "<|im_start|>" in the text becomes that token.
    std::vector<int32_t> encode(const std::string & text, bool add_special, bool parse_special) const;

    // special: show control tokens as text instead of dropping them.
    std::string decode(const std::vector<int32_t> & ids, bool special = false) const;
    std::string piece(int32_t id, bool special = true) const;

    // -1 where the model has none.
    int32_t bos() const;
    int32_t eos() const;
    int32_t mask() const;
    bool    is_end(int32_t id) const; // any end-of-generation token

    std::vector<int32_t> end_ids() const; // all of them

    bool has_chat_template() const;

    // The template as text, the way the model's authors render it.
    std::string render_chat(const std::vector<ChatMessage> & messages, bool add_generation_prompt) const;

    // The template as tokens. What a user typed never becomes a special token.
    std::vector<int32_t> encode_chat(const std::vector<ChatMessage> & messages, bool add_generation_prompt) const;

private:
    struct Impl;
    std::shared_ptr<const Impl> impl_;
};

} // namespace buoy
