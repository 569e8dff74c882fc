#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace buoy {

struct GenerateParams;

// Which masked positions are written first: a row of the table in src/decode/algorithms.cpp. Those that programs and tests name have a
// name here; a row behind them is found by parse_algorithm.
enum class Algorithm : int32_t {
    origin,
    entropy,
    margin,
    random,
    confidence,
    pc,
    pc_linear,
    eb,
    sequential,
    localleap,
    klass,
    dawn,
    wino,
    low_confidence,
    joint_threshold,
    joint_threshold_indel,
    plus_one,
};

// A number that an algorithm takes.
struct AlgorithmParam {
    const char * name;  // in JSON
    const char * label; // in messages
    float GenerateParams::*value;
    double                 low, high;
};

// What help and documentation say about an algorithm.
struct AlgorithmInfo {
    Algorithm                       algorithm;
    const char *                    name;
    int32_t                         number      = -1; // upstream's; -1: not there
    const char *                    help        = ""; // what is written first, and where that comes from
    std::span<const AlgorithmParam> params      = {};
    bool                            needs_table = false; // of token frequencies
};

std::vector<AlgorithmInfo> algorithms();

// Accepts the names and upstream's numbers 0 to 4; throws Error listing them.
Algorithm    parse_algorithm(const std::string & text);
const char * algorithm_name(Algorithm algorithm);

// A position that may be written, and what the model would write there.
struct Candidate {
    int32_t position = 0;
    int32_t id       = 0;
    float   prob     = 0; // of id
    float   margin   = 0; // between the two best tokens
    float   entropy  = 0; // in nats
    float   score    = 0; // larger is written earlier
};

// Positions [from, to).
struct BlockSpan {
    int32_t from = 0;
    int32_t to   = 0;
};

// An algorithm of one's own: sets the candidates' scores. block: what is being written, to which positions may be seen relative.
using Scorer = std::function<void(std::span<Candidate> candidates, const BlockSpan & block, int32_t step)>;

} // namespace buoy
