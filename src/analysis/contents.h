#pragma once

#include "buoy/recording.h"
#include "io/npz-reader.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace buoy::analysis {

// The members of a recording that have the same kind: those of a folder, or one at the top.
struct MemberGroup {
    std::string          name; // attn, rows, tokens.npy
    size_t               n_members = 0;
    uint64_t             size      = 0; // bytes of the members, unpacked
    std::string          type;          // empty where it is no array
    std::vector<int64_t> shape_min;     // of every extent; empty where the ranks differ
    std::vector<int64_t> shape_max;
};

// What a recording holds.
struct Contents {
    uint64_t                 size = 0; // bytes of the file
    nlohmann::ordered_json   meta;
    std::vector<MemberGroup> groups;
};

Contents read_contents(const std::string & path);

nlohmann::ordered_json contents_json(const Contents & contents);
std::string            contents_text(const std::string & path, const Contents & contents);

// Writes an array as CSV: a matrix line by line, a list one number to a line. Of an array with three dimensions the matrix at
// `index`, or, for a negative one, all of them, each line led by its index.
void write_csv(const NpzReader & file, const NpzMember & member, int64_t index, std::ostream & out);

} // namespace buoy::analysis
