#pragma once

#include "buoy/generate.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace buoy {

// Letters: L layers, H heads, K keys, R regions.

// Follows a generation: of the rows that write a token what they attend to, and what a pass over the finished sequence needs.
// Patterns are looked at as they come and not kept.
class AttentionWatch {
public:
    // What one head's row says, when it writes a token.
    struct Look {
        size_t most = 0; // the key attended to most, the first of equal ones
        double gold = 0; // attention on the gold keys
    };

    struct Written {
        size_t                         position = 0;
        std::vector<std::vector<Look>> looks; // [L][H], of the step that wrote it first
    };

    // The pattern of the sequence as it stood before its last pass: of each position the row that was computed last.
    struct Finished {
        std::vector<std::vector<double>> received; // [L][K], mean over heads and rows
        std::vector<std::vector<double>> regions;  // [L][R·R], sums over pairs of regions of the mean over heads
    };

    AttentionWatch(Context & context, const std::vector<int32_t> & prompt, std::vector<size_t> gold);

    void attach(GenerateParams & params);

    const std::vector<Written> & written() const { return written_; } // by time

    // One more pass, with the edits that the rows were computed with. After the generation.
    Finished finish(const std::vector<std::vector<int32_t>> & regions);

private:
    void prepare(ForwardRequest & request);
    void forget_edits(const std::vector<int32_t> & positions);
    void take(const TapEvent & event);
    void end_step(const StepReport & report, const std::vector<int32_t> & tokens);

    Context &            context_;
    std::vector<size_t>  gold_;
    std::vector<int32_t> sequence_; // as it is now

    // the last pass
    std::vector<int32_t>           seen_; // the sequence it saw
    KvUse                          kv_           = KvUse::none;
    int32_t                        block_length_ = 0;
    std::vector<int32_t>           rows_;  // positions of those that may write, ascending
    std::vector<std::vector<Look>> looks_; // [L][H · rows]

    std::vector<AttentionEdit> edits_; // of all rows, as each was computed last; queries are never empty
    std::vector<Written>       written_;
};

} // namespace buoy
