#include "text/unknown-text.h"

#include "buoy/utf8.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace buoy {

namespace {

constexpr const char * space_piece = "\xE2\x96\x81"; // how SentencePiece writes a space

} // namespace

UnknownText::UnknownText(const llama_vocab * vocab, int32_t unknown_id) : unknown_(unknown_id) {
    if (llama_vocab_type(vocab) != LLAMA_VOCAB_TYPE_SPM) {
        return;
    }
    std::map<std::string, int32_t> alone; // characters that are tokens
    std::set<std::string>          joined;
    for (int32_t id = 0; id < llama_vocab_n_tokens(vocab); id++) {
        const auto attr = static_cast<unsigned>(llama_vocab_get_attr(vocab, id));
        if ((attr & LLAMA_TOKEN_ATTR_BYTE) != 0) {
            return; // nothing is unknown
        }
        if ((attr & LLAMA_TOKEN_ATTR_UNKNOWN) != 0) {
            unknown_ = unknown_ < 0 ? id : unknown_;
            continue;
        }
        if ((attr & LLAMA_TOKEN_ATTR_CONTROL) != 0) { // text never becomes one
            continue;
        }
        std::string_view piece = llama_vocab_get_text(vocab, id);
        if (!piece.empty() && utf8_character_length(piece) == piece.size()) {
            alone.emplace(piece, id);
            continue;
        }
        while (!piece.empty()) {
            joined.emplace(piece.substr(0, utf8_character_length(piece)));
            piece.remove_prefix(utf8_character_length(piece));
        }
    }
    for (const auto & [character, id] : alone) {
        known_.insert(character);
        if (stand_in_ < 0 && character != space_piece && joined.count(character) == 0) {
            stand_in_      = id;
            stand_in_text_ = character;
        }
    }
    known_.insert(" ");
}

std::pair<std::string, std::vector<bool>> UnknownText::replace(const std::string & text) const {
    std::pair<std::string, std::vector<bool>> out;
    bool                                      in_run = false;
    for (std::string_view left = text; !left.empty();) {
        const std::string character(left.substr(0, utf8_character_length(left)));
        const bool        unknown = known_.count(character) == 0;
        left.remove_prefix(character.size());
        if (!unknown || !in_run) {
            out.first += unknown ? stand_in_text_ : character;
            if (unknown || character == stand_in_text_) {
                out.second.push_back(unknown);
            }
        }
        in_run = unknown;
    }
    return out;
}

void UnknownText::restore(const std::vector<bool> & is_unknown, int32_t * first, int32_t * last) const {
    size_t i = 0;
    for (; first != last && i < is_unknown.size(); first++) {
        if (*first == stand_in_) {
            *first = is_unknown[i++] ? unknown_ : stand_in_;
        }
    }
}

} // namespace buoy
