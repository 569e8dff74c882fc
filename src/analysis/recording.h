#pragma once

#include "buoy/recording.h"
#include "io/npz-reader.h"

#include <nlohmann/json.hpp>

namespace buoy::analysis {

struct Recording::Source {
    NpzReader      file;
    nlohmann::json meta;
};

inline const nlohmann::json & meta_of(const Recording & recording) { return recording.source().meta; }

} // namespace buoy::analysis
