#pragma once

#include "analysis/recording.h"

#include <array>
#include <map>
#include <string>
#include <vector>

namespace buoy::analysis {

enum class TokenClass { bos, special, punctuation, space, mask, content };

constexpr size_t token_class_count = 6;

inline constexpr std::array<const char *, token_class_count> token_class_names = {"bos",   "special", "punctuation",
                                                                                  "space", "mask",    "content"};

// Of a piece that is no special token: nothing but white space, punctuation and symbols with or without it, or anything else.
TokenClass piece_class(const std::string & piece);

// Classes of a recording's tokens as they were before a step.
class TokenClasses {
public:
    explicit TokenClasses(const Recording & recording);

    TokenClass at(size_t step, size_t position) const;

private:
    const Recording &             recording_;
    std::map<int32_t, TokenClass> by_id_;
    bool                          has_bos_ = false; // the first token is one
};

// Positions of a region, ascending; empty without it.
std::vector<size_t> region_positions(const Recording & recording, const std::string & name);

} // namespace buoy::analysis
