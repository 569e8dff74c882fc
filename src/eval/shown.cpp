// What each condition shows of an item.

#include "buoy/message.h"
#include "decode/random.h"
#include "eval/condition.h"
#include "eval/hash.h"
#include "eval/normalize.h"
#include "eval/prompt.h"
#include "eval/score.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

namespace buoy {

namespace {

using Kind     = QaCondition::Kind;
using Passages = std::vector<QaPassage>;

// What a random number is for.
enum class Purpose : uint64_t { noise, noise_place, shuffle, false_answer, false_place };

// Random numbers of one item and purpose.
class Draw {
public:
    Draw(uint64_t seed, const QaItem & item, Purpose purpose)
        : stream_(RandomSource(seed).stream(hash_number(item.id), static_cast<uint64_t>(purpose))) {}

    // 0 … n - 1
    size_t below(size_t n) {
        return std::min(n - 1, static_cast<size_t>(stream_.uniform(n_drawn_++) * static_cast<double>(n)));
    }

private:
    RandomSource::Stream stream_;
    uint64_t             n_drawn_ = 0;
};

Passages only(const Passages & passages, bool gold) {
    Passages out;
    std::copy_if(passages.begin(), passages.end(), std::back_inserter(out),
                 [=](const QaPassage & passage) { return passage.gold == gold; });
    return out;
}

std::string ascii_lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return text;
}

bool is_word_byte(const std::string & text, size_t at) {
    const auto c = static_cast<unsigned char>(at < text.size() ? text[at] : ' ');
    return std::isalnum(c) != 0 || c >= 0x80; // part of a letter that is not ASCII
}

// Where the words of a part begin in the text from there on; npos: nowhere.
size_t find_words(const std::string & text, const std::string & part, size_t from) {
    size_t at = part.empty() ? std::string::npos : text.find(part, from);
    while (at != std::string::npos && ((at > 0 && is_word_byte(text, at - 1) && is_word_byte(part, 0)) ||
                                       (is_word_byte(text, at + part.size()) && is_word_byte(part, part.size() - 1)))) {
        at = text.find(part, at + 1);
    }
    return at;
}

// The longest answer that stands in the text, whatever the case of its ASCII letters; empty: none does.
std::string answer_within(const QaItem & item, const std::string & text) {
    std::string longest;
    for (const std::string & answer : item.answers) {
        if (answer.size() > longest.size() &&
            find_words(ascii_lower(text), ascii_lower(answer), 0) != std::string::npos) {
            longest = answer;
        }
    }
    return longest;
}

std::string replaced(const std::string & text, const std::string & part, const std::string & by) {
    const std::string in = ascii_lower(text), what = ascii_lower(part);
    std::string       out;
    size_t            at = 0;
    for (size_t found = find_words(in, what, 0); found != std::string::npos; found = find_words(in, what, at)) {
        out += text.substr(at, found - at) + by;
        at = found + what.size();
    }
    return out + text.substr(at);
}

const QaPassage * contradictable(const QaItem & item, const Passages & passages) {
    const auto found = std::find_if(passages.begin(), passages.end(), [&](const QaPassage & passage) {
        return passage.gold && !answer_within(item, passage.text).empty();
    });
    return found != passages.end() ? &*found : nullptr;
}

std::string first_words_of(const std::string & text, size_t n) { return ascii_lower(first_words(text, n)); }

// A right answer of which nothing is left ("The") is found in every text: no passage is without it, and no answer is another one.
bool can_be_missing(const QaItem & item) {
    return std::none_of(item.answers.begin(), item.answers.end(),
                        [](const std::string & answer) { return normalized_answer(answer).empty(); });
}

} // namespace

QaConditions::QaConditions(const std::vector<QaItem> & items, uint64_t seed) : items_(items), seed_(seed) {
    for (const QaItem & item : items) {
        first_answers_.push_back(item.answers.empty() ? "" : normalized_answer(item.answers[0]));
    }
}

bool QaConditions::applies(const QaCondition & condition, const QaItem & item) const {
    const Passages passages = base(item, condition.n_passages);
    const auto     has_gold = [](const Passages & list) {
        return std::any_of(list.begin(), list.end(), [](const QaPassage & passage) { return passage.gold; });
    };
    switch (condition.kind) {
        case Kind::closed_book: return true;
        case Kind::gold_position: {
            const size_t n_gold = only(item.passages, true).size();
            return n_gold > 0 && condition.value + n_gold <= condition.n_passages + 1 && can_be_missing(item);
        }
        case Kind::noise: return has_gold(item.passages) && can_be_missing(item);
        case Kind::drop_gold:
        case Kind::repeat_gold:
        case Kind::truncate_gold: return has_gold(passages);
        case Kind::contradict: return contradictable(item, passages) != nullptr && can_be_missing(item);
        case Kind::passages:
        case Kind::shuffle:
        case Kind::edited: return !passages.empty();
    }
    return false;
}

// Passages are dropped from the end, those that the dataset calls gold last.
Passages QaConditions::base(const QaItem & item, size_t n_passages) const {
    Passages kept = item.passages;
    for (size_t i = kept.size(); i-- > 0 && kept.size() > n_passages;) {
        if (!item.flagged || !kept[i].gold) {
            kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
    kept.resize(std::min(kept.size(), n_passages));
    return kept;
}

// Passages of other questions that hold no answer to this one. The first n are the same for every larger n.
Passages QaConditions::noise(const QaItem & item, size_t n_passages) const {
    Draw     draw(seed_, item, Purpose::noise);
    Passages out;
    for (size_t n_tries = 0; out.size() < n_passages; n_tries++) {
        if (n_tries > 200 + 100 * n_passages) {
            fail("item ", in_quotes(item.id), ": found ", out.size(), " of ", n_passages,
                 " passages of other questions without an answer to this one");
        }
        const QaItem & other = items_[draw.below(items_.size())];
        if (other.passages.empty()) {
            continue;
        }
        QaPassage passage = other.passages[draw.below(other.passages.size())];
        passage.gold      = false;
        const auto same   = [&](const QaPassage & p) { return p.text == passage.text; };
        if (other.index != item.index && std::none_of(out.begin(), out.end(), same) &&
            std::none_of(item.passages.begin(), item.passages.end(), same) && !has_answer(passage.text, item.answers)) {
            out.push_back(std::move(passage));
        }
    }
    return out;
}

Passages QaConditions::gold_at(const QaItem & item, size_t n_passages, size_t position) const {
    const Passages gold    = only(item.passages, true);
    Passages       others  = only(item.passages, false);
    const size_t   n_other = n_passages - gold.size();
    if (others.size() < n_other) {
        const Passages more = noise(item, n_other - others.size());
        others.insert(others.end(), more.begin(), more.end());
    }
    others.resize(n_other);
    others.insert(others.begin() + static_cast<std::ptrdiff_t>(position - 1), gold.begin(), gold.end());
    return others;
}

// Of a question that begins with the same two words, or one, where there is one: it may be about the same kind of thing.
std::string QaConditions::other_answer(const QaItem & item) const {
    std::vector<std::string> right;
    for (const std::string & answer : item.answers) {
        right.push_back(normalized_answer(answer));
    }
    const auto is_another = [&](const std::string & answer) {
        return !answer.empty() && std::none_of(right.begin(), right.end(), [&](const std::string & one) {
            return answer.find(one) != std::string::npos || one.find(answer) != std::string::npos;
        });
    };
    std::array<std::vector<size_t>, 3> alike; // by the number of words that the questions begin with
    for (size_t i = 0; i < items_.size(); i++) {
        if (is_another(first_answers_[i])) {
            size_t n = 2;
            while (n > 0 && first_words_of(items_[i].question, n) != first_words_of(item.question, n)) {
                n--;
            }
            alike[n].push_back(i);
        }
    }
    const auto found = std::find_if(alike.rbegin(), alike.rend(), [](const auto & list) { return !list.empty(); });
    if (found == alike.rend()) {
        fail("item ", in_quotes(item.id), ": no other question has another answer to contradict with");
    }
    return items_[(*found)[Draw(seed_, item, Purpose::false_answer).below(found->size())]].answers[0];
}

QaShown QaConditions::contradicted(const QaItem & item, Passages passages) const {
    QaShown   out;
    QaPassage copy   = *contradictable(item, passages);
    out.false_answer = other_answer(item);
    copy.text        = replaced(copy.text, answer_within(item, copy.text), out.false_answer);
    copy.gold        = false;
    const size_t at  = Draw(seed_, item, Purpose::false_place).below(passages.size() + 1);
    passages.insert(passages.begin() + static_cast<std::ptrdiff_t>(at), std::move(copy));
    out.passages = std::move(passages);
    return out;
}

QaShown QaConditions::show(const QaCondition & condition, const QaItem & item) const {
    Passages passages = base(item, condition.n_passages);
    switch (condition.kind) {
        case Kind::closed_book:
        case Kind::passages:
        case Kind::edited: break;
        case Kind::gold_position: passages = gold_at(item, condition.n_passages, condition.value); break;
        case Kind::noise: {
            const size_t n_gold = only(item.passages, true).size();
            const size_t place  = Draw(seed_, item, Purpose::noise_place).below(condition.value + 1);
            passages            = only(item.passages, true);
            const Passages more = noise(item, condition.value);
            passages.insert(passages.begin(), more.begin(), more.begin() + static_cast<std::ptrdiff_t>(place));
            passages.insert(passages.begin() + static_cast<std::ptrdiff_t>(place + n_gold),
                            more.begin() + static_cast<std::ptrdiff_t>(place), more.end());
            break;
        }
        case Kind::shuffle: {
            Draw draw(seed_, item, Purpose::shuffle);
            for (size_t n = passages.size(); n > 1; n--) {
                std::swap(passages[n - 1], passages[draw.below(n)]);
            }
            break;
        }
        case Kind::drop_gold: passages = only(passages, false); break;
        case Kind::repeat_gold: {
            const Passages gold = only(passages, true);
            passages.insert(passages.end(), gold.begin(), gold.end());
            break;
        }
        case Kind::truncate_gold:
            for (QaPassage & passage : passages) {
                if (passage.gold) {
                    const double n = std::ceil(condition.share * static_cast<double>(word_count(passage.text)));
                    passage.text   = first_words(passage.text, static_cast<size_t>(n));
                }
            }
            break;
        case Kind::contradict: return contradicted(item, std::move(passages));
    }
    return {std::move(passages), ""};
}

} // namespace buoy
