#pragma once

#include "buoy/record.h"

#include <cstdint>
#include <string>
#include <vector>

namespace buoy {

// A region as a user describes it: by its text, by positions, or by the role of chat messages. One of them is set.
struct RegionSpec {
    std::string name;
    std::string text;           // must occur in the prompt
    int32_t     occurrence = 1; // which one of them, counted from 1; 0: all
    int32_t     first      = -1;
    int32_t     last       = -1; // one past the last position
    std::string role;            // system, user or assistant
};

// {"regions": [{"name": "doc1", "text": "…", "occurrence": 2 | "all"} | {"name": "q", "tokens": [12, 30]} |
//              {"name": "rules", "role": "system"}]}
std::vector<RegionSpec> load_regions(const std::string & path);

// The sequence that regions are parts of.
struct RegionSource {
    std::vector<int32_t>     tokens;        // the prompt
    int32_t                  n_predict = 0; // positions behind it
    std::vector<ChatMessage> messages;      // what the prompt was rendered from; empty: no chat template
};

// The regions asked for and, where no name is the same, those that every run has: bos, system, user, assistant (earlier answers),
// answer (what is generated, masks of the prompt included) and other (what no region covers). Without chat messages all that was
// given is user. A region without positions is left out. Throws Error naming a text, role or position that is not there.
std::vector<Region> make_regions(const std::vector<RegionSpec> & specs, const Vocab & vocab,
                                 const RegionSource & source);

} // namespace buoy
