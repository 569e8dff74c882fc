#include "buoy/text-stream.h"

#include "buoy/utf8.h"

#include <utility>

namespace buoy {

std::string TextStream::push(int32_t id) {
    std::string piece = vocab_.piece(id, false);
    if (!started_ && !piece.empty()) {
        started_ = true;
        // SentencePiece's space before the first word is no part of the text
        if (piece[0] == ' ' && vocab_.decode({id}).compare(0, 1, " ") != 0) {
            piece.erase(0, 1);
        }
    }
    held_ += piece;
    const size_t n    = utf8_whole_length(held_);
    std::string  text = utf8_repair(std::string_view(held_).substr(0, n));
    held_.erase(0, n);
    return text;
}

std::string TextStream::finish() { return utf8_repair(std::exchange(held_, "")); }

} // namespace buoy
