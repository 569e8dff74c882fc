#include "eval/prompt.h"

#include "buoy/utf8.h"

#include <algorithm>

namespace buoy {

namespace {

using Span = std::pair<int32_t, int32_t>;

constexpr const char * space = " \t\r\n";

// Calls take(end of the word) for each word until it returns false.
template <typename Take> void each_word(const std::string & text, const Take & take) {
    for (size_t at = text.find_first_not_of(space); at != std::string::npos; at = text.find_first_not_of(space, at)) {
        at = std::min(text.find_first_of(space, at), text.size());
        if (!take(at)) {
            return;
        }
    }
}

std::vector<int32_t> encode(const Vocab & vocab, bool raw, const std::string & text) {
    return !raw && vocab.has_chat_template() ? vocab.encode_chat({{"user", text}}, true)
                                             : vocab.encode(text, true, false);
}

// Where parts of the rendered text ended up, in tokens; found in their order in the text of the pieces, as given or as a tokenizer
// may have normalised them.
class PartFinder {
public:
    PartFinder(const Vocab & vocab, const std::vector<int32_t> & tokens) {
        for (const int32_t id : tokens) {
            text_ += vocab.piece(id, true);
            ends_.push_back(text_.size());
        }
    }

    // Empty where the tokenizer changed it beyond recognition.
    Span next(const std::string & part) {
        for (const std::string & form : {utf8_repair(part), utf8_nfc(utf8_repair(part))}) {
            const size_t found = form.empty() ? std::string::npos : text_.find(form, at_);
            if (found != std::string::npos) {
                at_              = found + form.size();
                const auto first = std::max<std::ptrdiff_t>(
                    std::upper_bound(ends_.begin(), ends_.end(), found) - ends_.begin(), taken_);
                const auto last = std::lower_bound(ends_.begin(), ends_.end(), at_) - ends_.begin() + 1;
                taken_          = std::max(first, last);
                return {static_cast<int32_t>(first), static_cast<int32_t>(taken_)};
            }
        }
        return {0, 0};
    }

private:
    std::string         text_;
    std::vector<size_t> ends_;
    size_t              at_    = 0;
    std::ptrdiff_t      taken_ = 0; // tokens that belong to an earlier part
};

struct Part {
    RenderedPrompt::Bytes bytes;
    Region *              region;
};

std::vector<Region> find_regions(const Vocab & vocab, const QaPrompt & prompt, const RenderedPrompt & rendered) {
    const auto          n_prompt = static_cast<int32_t>(prompt.tokens.size());
    const int32_t       n_all    = n_prompt + prompt.n_predict;
    Region              question{"question", {}}, gold{"gold", {}};
    std::vector<Region> docs;
    for (size_t i = 0; i < rendered.passages.size(); i++) {
        docs.push_back({"doc" + std::to_string(i + 1), {}});
    }
    std::vector<Part> parts = {{rendered.question, &question}};
    for (size_t i = 0; i < docs.size(); i++) {
        parts.push_back({rendered.passages[i], &docs[i]});
    }
    std::sort(parts.begin(), parts.end(), [](const Part & a, const Part & b) { return a.bytes < b.bytes; });
    PartFinder        finder(vocab, prompt.tokens);
    std::vector<bool> covered(static_cast<size_t>(n_all));
    const auto        cover = [&](Region & region, const Span & span) {
        if (span.first < span.second) {
            region.spans.push_back(span);
            std::fill(covered.begin() + span.first, covered.begin() + span.second, true);
        }
    };
    for (const Part & part : parts) {
        cover(*part.region, finder.next(rendered.text.substr(part.bytes.first, part.bytes.second - part.bytes.first)));
    }
    for (size_t i = 0; i < docs.size(); i++) {
        if (prompt.passages[i].gold) {
            gold.spans.insert(gold.spans.end(), docs[i].spans.begin(), docs[i].spans.end());
        }
    }
    Region bos{"bos", {}}, answer{"answer", {}}, other{"other", {}};
    if (n_prompt > 0 && prompt.tokens[0] == vocab.bos() && !covered[0]) {
        cover(bos, {0, 1});
    }
    cover(answer, {n_prompt, n_all});
    for (int32_t i = 0; i < n_all; i++) {
        if (covered[static_cast<size_t>(i)]) {
            continue;
        }
        if (other.spans.empty() || other.spans.back().second != i) {
            other.spans.emplace_back(i, i);
        }
        other.spans.back().second = i + 1;
    }
    std::vector<Region> regions = {bos, question};
    regions.insert(regions.end(), docs.begin(), docs.end());
    regions.insert(regions.end(), {gold, answer, other});
    regions.erase(std::remove_if(regions.begin(), regions.end(), [](const Region & r) { return r.spans.empty(); }),
                  regions.end());
    return regions;
}

} // namespace

size_t word_count(const std::string & text) {
    size_t n = 0;
    each_word(text, [&](size_t) { return ++n > 0; });
    return n;
}

std::string first_words(const std::string & text, size_t n_words) {
    size_t n   = 0;
    size_t end = 0;
    each_word(text, [&](size_t last) {
        if (n == n_words) {
            return false;
        }
        n++;
        end = last;
        return true;
    });
    return text.substr(0, end);
}

QaPrompt make_qa_prompt(const Vocab & vocab, const PromptTemplate & form, const PromptRules & rules,
                        const std::string & question, std::vector<QaPassage> passages) {
    RenderedPrompt rendered;
    QaPrompt       prompt;
    // With at most so many words of each passage; does it fit?
    const auto fits = [&](size_t n_words) {
        prompt.passages = passages;
        for (QaPassage & passage : prompt.passages) {
            passage.text = first_words(passage.text, n_words);
        }
        rendered      = form.render(question, prompt.passages);
        prompt.tokens = encode(vocab, rules.raw, rendered.text);
        return static_cast<int64_t>(prompt.tokens.size()) + rules.n_predict <= rules.n_max;
    };
    size_t n_most = 0;
    for (const QaPassage & passage : passages) {
        n_most = std::max(n_most, word_count(passage.text));
    }
    prompt.n_predict = rules.n_predict;
    if (!fits(n_most)) {
        prompt.cut   = n_most > 0;
        size_t low   = 0; // fits, or nothing does
        size_t above = n_most;
        while (low + 1 < above) {
            const size_t middle          = low + (above - low) / 2;
            (fits(middle) ? low : above) = middle;
        }
        prompt.too_long = !fits(low);
    }
    prompt.regions = find_regions(vocab, prompt, rendered);
    return prompt;
}

} // namespace buoy
