#pragma once

#include <regex>
#include <set>
#include <string>
#include <vector>

namespace buoy {

// Requests for stories, and what makes a story right: its sentences follow the patterns in their order, and of the words of each role
// (the persons, the animals) request and story have one at most. Mixing two is what writing many positions at once does wrong.
struct StorySet {
    std::string                        hash; // of the text
    std::vector<std::string>           requests;
    std::vector<std::regex>            sentences; // what a story's first, second, … sentence may be
    std::vector<std::set<std::string>> roles;

    bool is_right(const std::string & request, const std::string & story) const;
};

// {"requests": [text], "sentences": [regular expression], "roles": {name: [word]}}; the roles may be missing. Throws Error.
StorySet parse_stories(const std::string & path, const std::string & text);

// Is it that, and not questions line by line?
bool has_stories(const std::string & text);

} // namespace buoy
