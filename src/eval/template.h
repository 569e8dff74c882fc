#pragma once

#include "eval/item.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace buoy {

struct RenderedPrompt {
    using Bytes = std::pair<size_t, size_t>; // first, one past the last

    std::string        text;
    Bytes              question;
    std::vector<Bytes> passages; // without the white space around them
};

// How a question and its passages become a prompt. A part of Mustache: {{question}}; {{#passages}} … {{/passages}} once for each,
// with {{n}}, {{title}}, {{text}} inside; {{#has_passages}} and {{#title}} where there are any, {{^…}} where there are none. A line that
// has nothing but the tag of a section leaves no line, and the last line break is no part of the prompt.
class PromptTemplate {
public:
    // Throws Error that begins with the name and the line.
    PromptTemplate(const std::string & name, const std::string & text);

    static PromptTemplate load(const std::string & path);
    static PromptTemplate standard();

    const std::string & text() const { return text_; }

    RenderedPrompt render(const std::string & question, const std::vector<QaPassage> & passages) const;

private:
    struct Node {
        enum class Kind { text, value, section, inverted };
        Kind              kind = Kind::text;
        std::string       text; // or the name
        std::vector<Node> children;
    };
    class Parser;
    class Renderer;

    std::string       text_;
    std::vector<Node> nodes_;
};

} // namespace buoy
