#pragma once

#include "buoy/edit.h"
#include "buoy/record.h"

#include <string>
#include <vector>

// What the --attn flags ask for, before there is a model to check it against.
struct AttnParams {
    buoy::RecordParams          record; // without the lists; no path: nothing is recorded
    buoy::IndexRanges           layers;
    buoy::IndexRanges           heads;
    buoy::IndexRanges           steps;
    buoy::IndexRanges           rows;
    std::string                 regions; // file
    std::vector<buoy::EditSpec> edits;
    bool                        compare = false;
    std::vector<std::string>    needs_dump; // flags given that say how to record

    bool is_used() const { return !record.path.empty() || !edits.empty(); }
};
