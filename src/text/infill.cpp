#include "buoy/infill.h"

#include "buoy/message.h"

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
            fail("infill: the gap ", in_quotes(text.substr(first, gap.last - first)), " has no size from 1 to ",
                 gap_max);
        }
        return gap;
    }
    return {};
}

} // namespace

Infill::Infill(const Vocab & vocab, int32_t mask_id, const std::string & text) : mask_id_(mask_id) {
    const std::vector<int32_t> opening = vocab.encode("", true, false);
    if (!opening.empty() && opening[0] == vocab.bos()) {
        tokens_.push_back(opening[0]);
    }
    for (size_t at = 0; at <= text.size();) {
        const Gap gap = find_gap(text, at);
        Part      part;
        part.text                      = text.substr(at, std::min(gap.first, text.size()) - at);
        const std::vector<int32_t> ids = vocab.encode(part.text, false, false);
        tokens_.insert(tokens_.end(), ids.begin(), ids.end());
        part.gap_first = tokens_.size();
        part.gap_count = gap.count;
        tokens_.resize(tokens_.size() + gap.count, mask_id);
        parts_.push_back(std::move(part));
        at = gap.count > 0 ? gap.last : text.size() + 1;
    }
    if (parts_.size() == 1) {
        fail("infill: the text has no gap; [[8]] stands for 8 tokens to fill in");
    }
}

std::string Infill::filled(const Vocab & vocab, const std::vector<int32_t> & sequence) const {
    std::string text;
    for (const Part & part : parts_) {
        const auto           first = sequence.begin() + static_cast<std::ptrdiff_t>(part.gap_first);
        std::vector<int32_t> ids;
        std::copy_if(first, first + static_cast<std::ptrdiff_t>(part.gap_count), std::back_inserter(ids),
                     [&](int32_t id) { return id != mask_id_; }); // a stopped run leaves some
        text += part.text + vocab.decode(ids);
    }
    return text;
}

} // namespace buoy
