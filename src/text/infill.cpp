#include "buoy/infill.h"

#include "buoy/message.h"
#include "buoy/utf8.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace buoy {

namespace {

constexpr size_t gap_max = 1 << 20;

struct Gap {
    size_t first = std::string::npos; // of its text
    size_t last  = 0;
    size_t count = 0;
};

// The next "[[digits]]" at or after a place. Other brackets are text.
Gap find_gap(const std::string & text, size_t from) {
    for (size_t first = text.find("[[", from); first != std::string::npos; first = text.find("[[", first + 1)) {
        const size_t close = text.find_first_not_of("0123456789", first + 2);
        if (close == std::string::npos || close == first + 2 || text.compare(close, 2, "]]") != 0) {
            continue;
        }
        Gap        gap    = {first, close + 2, 0};
        const auto result = std::from_chars(text.data() + first + 2, text.data() + close, gap.count);
        if (result.ec != std::errc() || gap.count == 0 || gap.count > gap_max) {
            fail("infill: gap ", in_quotes(text.substr(first, gap.last - first)), ": the size must be between 1 and ",
                 gap_max);
        }
        return gap;
    }
    return {};
}

std::vector<Infill::Part> split_gaps(const std::string & text) {
    std::vector<Infill::Part> parts;
    for (size_t at = 0; at <= text.size();) {
        const Gap gap = find_gap(text, at);
        parts.push_back({text.substr(at, std::min(gap.first, text.size()) - at), gap.count});
        at = gap.count > 0 ? gap.last : text.size() + 1;
    }
    if (parts.size() == 1) {
        fail("infill: the text has no gap; [[8]] stands for 8 tokens to fill in");
    }
    return parts;
}

// Tokens of text that follows other text. SentencePiece puts a space before whatever it is given, which belongs at a text's beginning
// only.
class Encoder {
public:
    Encoder(const Vocab & vocab, bool parse_special) : vocab_(vocab), parse_special_(parse_special) {
        const std::vector<int32_t> letter = vocab.encode("x", false, false);
        adds_space_                       = !letter.empty() && vocab.piece(letter[0]).rfind(' ', 0) == 0;
    }

    bool adds_space() const { return adds_space_; }

    std::vector<int32_t> first(const std::string & text) const { return vocab_.encode(text, false, parse_special_); }

    std::vector<int32_t> next(const std::string & text) const {
        if (!adds_space_ || text.empty()) {
            return first(text);
        }
        if (text[0] == ' ') {
            return text.size() > 1 ? first(text.substr(1)) : std::vector<int32_t>{space()};
        }
        const std::vector<int32_t> before = first("\n");
        std::vector<int32_t>       ids    = first("\n" + text);
        if (ids.size() <= before.size() || !std::equal(before.begin(), before.end(), ids.begin())) {
            return first(text);
        }
        return {ids.begin() + static_cast<std::ptrdiff_t>(before.size()), ids.end()};
    }

private:
    int32_t space() const { return first("\n")[0]; }

    const Vocab & vocab_;
    bool          parse_special_;
    bool          adds_space_;
};

} // namespace

Infill::Infill(const Vocab & vocab, int32_t mask_id, const std::string & text, bool parse_special)
    : Infill(vocab, mask_id, split_gaps(text), parse_special) {}

Infill::Infill(const Vocab & vocab, int32_t mask_id, std::vector<Part> parts, bool parse_special)
    : parts_(std::move(parts)), mask_id_(mask_id) {
    const std::vector<int32_t> opening = vocab.encode("", true, false);
    const Encoder              encoder(vocab, parse_special);
    drops_space_ = encoder.adds_space();
    if (!opening.empty() && opening[0] == vocab.bos()) {
        tokens_.push_back(opening[0]);
    }
    for (Part & part : parts_) {
        std::string own = part.text;
        if (part.gap_count > 0 && !own.empty() && own.back() == ' ') {
            own.pop_back(); // a word's token has the space before it, so the gap writes this one
        }
        const std::vector<int32_t> ids = &part == parts_.data() ? encoder.first(own) : encoder.next(own);
        tokens_.insert(tokens_.end(), ids.begin(), ids.end());
        part.gap_first = tokens_.size();
        tokens_.resize(tokens_.size() + part.gap_count, mask_id);
    }
}

bool Infill::has_space_before(size_t gap) const {
    const std::string & text = parts_[gap].text;
    return gap == 0 && text.empty() ? drops_space_ : !text.empty() && text.back() == ' ';
}

std::vector<std::string> Infill::fills(const Vocab & vocab, const std::vector<int32_t> & sequence) const {
    std::vector<std::string> fills;
    for (size_t i = 0; i + 1 < parts_.size(); i++) {
        std::string bytes;
        for (size_t at = parts_[i].gap_first; at < parts_[i].gap_first + parts_[i].gap_count; at++) {
            bytes += sequence[at] == mask_id_ ? "" : vocab.piece(sequence[at], false); // a stopped run leaves masks
        }
        fills.push_back(utf8_repair(bytes));
    }
    return fills;
}

std::string Infill::filled(const Vocab & vocab, const std::vector<int32_t> & sequence) const {
    const std::vector<std::string> gaps = fills(vocab, sequence);
    std::string                    text;
    for (size_t i = 0; i < gaps.size(); i++) {
        text += parts_[i].text;
        const bool has_space = text.empty() ? drops_space_ : has_space_before(i);
        text += has_space && gaps[i].rfind(' ', 0) == 0 ? gaps[i].substr(1) : gaps[i];
    }
    return text + parts_.back().text;
}

bool Infill::ends_with_gap() const {
    return parts_.size() == 2 && parts_.back().text.find_first_not_of(" \t\r\n") == std::string::npos;
}

} // namespace buoy
