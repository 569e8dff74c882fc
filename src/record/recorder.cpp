#include "buoy/record.h"

#include "buoy/error.h"

namespace buoy {

class Recorder::Impl {};

Recorder::Recorder(const RecordOptions & options, const ModelInfo &, const Vocab &, const RecordedRun &) {
    fail(options.path, ": recording is not there yet");
}

Recorder::~Recorder() = default;

uint64_t Recorder::predicted_size() const { return 0; }
void     Recorder::prepare(int32_t, ForwardRequest &) {}
void     Recorder::end_step(const StepReport &, const std::vector<int32_t> &) {}
void     Recorder::attach(GenerateParams &) {}
void     Recorder::finish() {}

} // namespace buoy
