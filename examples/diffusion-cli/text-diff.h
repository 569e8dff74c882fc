#pragma once

#include <string>

struct MarkedTexts {
    std::string before;
    std::string after;
};

// Two texts, each as one line, with the words marked that the other one lacks: [-so-] and {+so+}, or in red and green.
MarkedTexts mark_differences(const std::string & before, const std::string & after, bool color);
