#include "text-diff.h"

#include "buoy/message.h"

#include <algorithm>
#include <vector>

namespace {

using Words = std::vector<std::string>;

// Each with the spaces before it.
Words words_of(const std::string & text) {
    Words words;
    bool  in_word = true;
    for (const char c : text) {
        const bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
        if (words.empty() || (space && in_word)) {
            words.emplace_back();
        }
        words.back() += c;
        in_word = !space;
    }
    return words;
}

// For each word of a, whether a longest common subsequence with b has it; the same for b.
void find_common(const Words & a, const Words & b, std::vector<bool> & in_a, std::vector<bool> & in_b) {
    const size_t          width = b.size() + 1;
    std::vector<uint32_t> length((a.size() + 1) * width); // of what a from i and b from j have in common
    for (size_t i = a.size(); i-- > 0;) {
        for (size_t j = b.size(); j-- > 0;) {
            length[i * width + j] = a[i] == b[j] ? length[(i + 1) * width + j + 1] + 1
                                                 : std::max(length[(i + 1) * width + j], length[i * width + j + 1]);
        }
    }
    in_a.assign(a.size(), false);
    in_b.assign(b.size(), false);
    for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        if (a[i] == b[j]) {
            in_a[i++] = in_b[j++] = true;
        } else if (length[(i + 1) * width + j] >= length[i * width + j + 1]) {
            i++;
        } else {
            j++;
        }
    }
}

std::string marked(const Words & words, const std::vector<bool> & common, const char * open, const char * close) {
    std::string out;
    bool        inside = false;
    for (size_t i = 0; i < words.size(); i++) {
        const size_t n_space = std::min(words[i].find_first_not_of(' '), words[i].size());
        if (inside && common[i]) {
            out += close;
            inside = false;
        }
        if (!inside && !common[i]) {
            out += words[i].substr(0, n_space) + open + buoy::printable(words[i].substr(n_space));
            inside = true;
        } else {
            out += buoy::printable(words[i]);
        }
    }
    return out + (inside ? close : "");
}

} // namespace

MarkedTexts mark_differences(const std::string & before, const std::string & after, bool color) {
    const Words       a = words_of(before), b = words_of(after);
    std::vector<bool> in_a, in_b;
    find_common(a, b, in_a, in_b);
    return {marked(a, in_a, color ? "\033[31m" : "[-", color ? "\033[0m" : "-]"),
            marked(b, in_b, color ? "\033[32m" : "{+", color ? "\033[0m" : "+}")};
}
