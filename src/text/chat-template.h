#pragma once

#include "buoy/vocab.h"

#include <string>
#include <utility>
#include <vector>

namespace buoy {

struct RenderedChat {
    std::string                            text;
    std::vector<std::pair<size_t, size_t>> typed; // the stretches [first, last) that come from a message's content

    bool is_typed(size_t first, size_t last) const; // any byte of it
};

// A model's Jinja chat template. It is run in another process, so that it can't take ours down.
class ChatTemplate {
public:
    // `origin` names the file in messages. bos and eos are what the template's variables of those names hold.
    ChatTemplate(std::string origin, const std::string & source, std::string bos, std::string eos);

    RenderedChat render(const std::vector<ChatMessage> & messages, bool add_generation_prompt) const;

private:
    RenderedChat run(const std::vector<ChatMessage> & messages, bool add_generation_prompt) const;

    std::string origin_;
    std::string source_;
    std::string bos_;
    std::string eos_;
};

} // namespace buoy
