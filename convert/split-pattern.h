#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace buoy {

using CodePoints = std::vector<uint32_t>;

CodePoints  decode_utf8(const std::string & text); // of well-formed text
std::string encode_utf8(uint32_t code);

// A regular expression as tokenizer.json files have them: alternatives, groups, (?i:…), lookahead, classes with Unicode
// categories, greedy and possessive repeats. Small and slow: it checks tokenizers, it does not run them.
class SplitPattern {
public:
    explicit SplitPattern(const std::string & pattern);

    // Ends of the pieces that the text falls into: what matches, and what lies between.
    std::vector<size_t> split(const CodePoints & text) const;

    struct Node;

private:
    std::shared_ptr<const Node> root_;
};

} // namespace buoy
