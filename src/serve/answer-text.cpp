#include "serve/answer-text.h"

#include "buoy/utf8.h"

#include <algorithm>
#include <utility>

namespace buoy::serve {

AnswerText::AnswerText(const ServedModel & model, const Prompt & prompt, const GenerateParams & params,
                       const std::vector<std::string> & stop)
    : vocab_(model.vocab), mask_id_(model.info.traits.is_diffusion() ? model.info.traits.mask_id : -1),
      end_ids_(params.end_ids), stop_(stop), first_(prompt.n_given),
      end_(static_cast<int32_t>(prompt.tokens.size()) + params.n_predict), end_from_(prompt.n_given),
      in_gap_(prompt.infill.has_value()), has_space_(in_gap_ && prompt.infill->has_space_before(0)), next_(first_) {
    if (in_gap_) {
        end_ = first_ + static_cast<int32_t>(prompt.infill->parts()[0].gap_count);
    } else {
        stream_.emplace(vocab_);
    }
    for (int32_t position = first_; position < static_cast<int32_t>(prompt.tokens.size()); position++) {
        given_.push_back(prompt.tokens[static_cast<size_t>(position)] != mask_id_);
        end_from_ = given_.back() ? position + 1 : end_from_;
    }
}

bool AnswerText::is_end(int32_t position, int32_t id) const {
    return position >= end_from_ && std::find(end_ids_.begin(), end_ids_.end(), id) != end_ids_.end();
}

int32_t AnswerText::end_of(const std::vector<int32_t> & tokens) const {
    return std::min(end_, static_cast<int32_t>(tokens.size()));
}

std::string AnswerText::push(int32_t id) {
    if (stream_) {
        return stream_->push(id);
    }
    std::string piece = vocab_.piece(id, false);
    if (!started_ && !piece.empty()) {
        piece.erase(0, has_space_ && piece[0] == ' ' ? 1 : 0);
        started_ = true;
    }
    held_ += piece;
    const size_t n    = utf8_whole_length(held_);
    std::string  text = utf8_repair(std::string_view(held_).substr(0, n));
    held_.erase(0, n);
    return text;
}

void AnswerText::look_for_stop(size_t from) {
    size_t first = std::string::npos;
    for (const std::string & stop : stop_) {
        const size_t at = text_.find(stop, from - std::min(from, stop.size() - 1));
        if (at < first) {
            first      = at;
            stop_text_ = stop;
        }
    }
    if (first != std::string::npos) {
        text_.resize(first);
        stopped_ = true;
    }
}

size_t AnswerText::n_safe() const {
    size_t n = text_.size();
    for (const std::string & stop : stop_) {
        for (size_t length = std::min(stop.size() - 1, text_.size()); length > 0 && !stopped_; length--) {
            if (text_.ends_with(std::string_view(stop).substr(0, length))) {
                n = std::min(n, text_.size() - length);
                break;
            }
        }
    }
    return n;
}

std::string AnswerText::advance(const std::vector<int32_t> & tokens, int32_t n_final) {
    const int32_t end = std::min(n_final, end_of(tokens));
    while (next_ < end && !stopped_ && !ended_) {
        const int32_t id = tokens[static_cast<size_t>(next_)];
        if (is_end(next_, id)) {
            ended_ = true;
            break;
        }
        const size_t from = text_.size();
        text_ += push(id);
        const auto at = static_cast<size_t>(next_++ - first_);
        n_written_ += at < given_.size() && given_[at] ? 0 : 1;
        look_for_stop(from);
    }
    const size_t n     = std::max(n_safe(), n_sent_);
    std::string  added = text_.substr(n_sent_, n - n_sent_);
    n_sent_            = n;
    return added;
}

std::string AnswerText::finish(const std::vector<int32_t> & tokens) {
    std::string added = advance(tokens, end_of(tokens));
    if (!stopped_) {
        const size_t from = text_.size();
        text_ += stream_ ? stream_->finish() : utf8_repair(std::exchange(held_, ""));
        look_for_stop(from);
    }
    added += text_.substr(std::min(n_sent_, text_.size()));
    n_sent_ = text_.size();
    return added;
}

std::string AnswerText::whole(const std::vector<int32_t> & tokens) const {
    if (stopped_ || ended_) {
        return text_;
    }
    std::string bytes;
    for (int32_t position = first_; position < end_of(tokens); position++) {
        const int32_t id = tokens[static_cast<size_t>(position)];
        if (is_end(position, id)) {
            break;
        }
        std::string piece = id == mask_id_ ? mask_text : vocab_.piece(id, false);
        if (position == first_ && id != mask_id_ && !piece.empty() && piece[0] == ' ') {
            // as the final text has it
            const bool drops = in_gap_ ? has_space_ : vocab_.decode({id}).compare(0, 1, " ") != 0;
            piece.erase(0, drops ? 1 : 0);
        }
        bytes += piece;
    }
    return utf8_repair(bytes);
}

std::vector<int32_t> AnswerText::answer(const std::vector<int32_t> & tokens) const {
    const auto end = tokens.begin() + std::max(first_, end_of(tokens));
    return {tokens.begin() + std::min(first_, static_cast<int32_t>(tokens.size())), end};
}

} // namespace buoy::serve
