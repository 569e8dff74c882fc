#pragma once

#include "io/npz-reader.h"
#include "support/cli.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace buoy::test {

// A random model of three layers and four heads, made once per process.
const std::string & layered_model(const std::string & arch);

// What makes results exact: F32 keys and values, no flash attention.
const Args exact_flags = {"-ctk", "f32", "-ctv", "f32", "-fa", "off"};

// What --json printed; the size notice of a recording may stand on standard error, and nothing else.
nlohmann::json attn_json(const Args & args);

// A member of a recording.
struct Array {
    std::vector<int64_t> shape; // outermost first
    std::vector<float>   values;
};

Array          read_array(const NpzReader & file, const std::string & name);
nlohmann::json read_meta(const NpzReader & file);
std::string    attn_name(int step, int layer, const std::string & kind = "attn");

double max_abs(const std::vector<float> & values);

// The largest distance of a row's sum from one; rows are the last dimension.
double worst_row_sum(const Array & pattern);

} // namespace buoy::test
