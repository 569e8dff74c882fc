#include "eval/attention-span.h"

#include <algorithm>

namespace buoy {

namespace {

std::string ascii_lower(std::string text) {
    for (char & c : text) {
        c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    return text;
}

// The text of some tokens, and which of them each byte belongs to.
struct SpanText {
    std::string         text;
    std::vector<size_t> position; // [bytes]
};

SpanText text_of(const Vocab & vocab, const QaPrompt & prompt, const std::pair<int32_t, int32_t> & span) {
    SpanText out;
    for (auto i = static_cast<size_t>(span.first); i < static_cast<size_t>(span.second); i++) {
        out.text += vocab.piece(prompt.tokens.at(i), true);
        out.position.resize(out.text.size(), i);
    }
    return out;
}

} // namespace

std::vector<size_t> positions_of(const QaPrompt & prompt, const std::string & region) {
    std::vector<size_t> positions;
    for (const Region & one : prompt.regions) {
        for (const auto & [first, end] : one.spans) {
            for (int32_t i = first; i < end && one.name == region; i++) {
                positions.push_back(static_cast<size_t>(i));
            }
        }
    }
    std::sort(positions.begin(), positions.end());
    return positions;
}

AnswerSpan find_answer_span(const Vocab & vocab, const QaItem & item, const QaPrompt & prompt) {
    const auto gold =
        std::find_if(prompt.regions.begin(), prompt.regions.end(), [](const Region & r) { return r.name == "gold"; });
    AnswerSpan out;
    for (const std::string & answer : item.answers) {
        for (size_t s = 0; gold != prompt.regions.end() && s < gold->spans.size(); s++) {
            const SpanText in    = text_of(vocab, prompt, gold->spans[s]);
            const size_t   found = answer.empty() ? std::string::npos : ascii_lower(in.text).find(ascii_lower(answer));
            if (found == std::string::npos) {
                continue;
            }
            for (size_t i = in.position[found]; i <= in.position[found + answer.size() - 1]; i++) {
                out.positions.push_back(i);
                out.text += vocab.piece(prompt.tokens[i], true);
            }
            return out;
        }
    }
    return out;
}

} // namespace buoy
