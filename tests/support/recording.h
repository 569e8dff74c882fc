#pragma once

#include "buoy/record.h"
#include "support/random-context.h"

namespace buoy::test {

// A random model and a run of it that can be recorded.
struct RecordingBench {
    explicit RecordingBench(const RandomModel & model = {}, int32_t n_sequences = 1);

    // Records a run and returns it; the path is params.path.
    Generation record(const RecordParams & params);
    Generation run(); // the same without a recorder

    RecordedRun recorded_run() const;

    std::unique_ptr<Context> context;
    Vocab                    vocab;
    std::vector<int32_t>     prompt;
    GenerateParams           params;

private:
    RecordingBench(const std::string & path, int32_t n_sequences);
};

RecordParams record_params(const std::string & path, TapReduce reduce = TapReduce::none,
                           RecordType type = RecordType::f32);

} // namespace buoy::test
