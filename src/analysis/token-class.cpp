#include "analysis/token-class.h"

#include <algorithm>
#include <set>

#include <utf8proc.h>

namespace buoy::analysis {

namespace {

bool is_space(int32_t code) {
    const utf8proc_category_t category = utf8proc_category(code);
    return (code >= '\t' && code <= '\r') || category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
           category == UTF8PROC_CATEGORY_ZP;
}

bool is_mark(int32_t code) {
    const utf8proc_category_t category = utf8proc_category(code);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_SO;
}

} // namespace

TokenClass piece_class(const std::string & piece) {
    const auto * at    = reinterpret_cast<const utf8proc_uint8_t *>(piece.data());
    auto         left  = static_cast<utf8proc_ssize_t>(piece.size());
    bool         marks = false;
    while (left > 0) {
        utf8proc_int32_t       code   = 0;
        const utf8proc_ssize_t length = utf8proc_iterate(at, left, &code);
        if (length <= 0 || (!is_space(code) && !is_mark(code))) {
            return TokenClass::content;
        }
        marks = marks || is_mark(code);
        at += length;
        left -= length;
    }
    return piece.empty() ? TokenClass::content : marks ? TokenClass::punctuation : TokenClass::space;
}

TokenClasses::TokenClasses(const Recording & recording) : recording_(recording) {
    for (size_t j = 0; j < recording.n_positions(); j++) {
        by_id_[recording.token(recording.n_steps(), j)] = piece_class(recording.pieces()[j]);
    }
    for (int32_t id : recording.special_ids()) {
        by_id_[id] = TokenClass::special;
    }
    if (recording.mask_id() >= 0) {
        by_id_[recording.mask_id()] = TokenClass::mask;
    }
    const std::vector<size_t> bos = region_positions(recording, "bos");
    has_bos_                      = !bos.empty() && bos.front() == 0;
}

TokenClass TokenClasses::at(size_t step, size_t position) const {
    if (position == 0 && has_bos_) {
        return TokenClass::bos;
    }
    const auto found = by_id_.find(recording_.token(step, position)); // what was written over later has no piece
    return found != by_id_.end() ? found->second : TokenClass::content;
}

std::vector<size_t> region_positions(const Recording & recording, const std::string & name) {
    std::set<size_t> positions;
    if (const Region * region = recording.region(name)) {
        for (const auto & [first, last] : region->spans) {
            for (int32_t j = first; j < last; j++) {
                positions.insert(static_cast<size_t>(j));
            }
        }
    }
    return {positions.begin(), positions.end()};
}

} // namespace buoy::analysis
