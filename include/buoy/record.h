#pragma once

#include "buoy/names.h"
#include "buoy/vocab.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace buoy {

enum class RecordType { f16, f32 };

inline constexpr Name<RecordType> record_type_names[] = {{"f16", RecordType::f16}, {"f32", RecordType::f32}};

// A named part of the sequence: spans of positions, first and one past the last.
struct Region {
    std::string                              name;
    std::vector<std::pair<int32_t, int32_t>> spans;
};

// What to keep of a run, and where. Index lists: empty is all, an index that does not exist is an error.
struct RecordParams {
    std::string          path;
    bool                 force = false; // replace an existing file
    std::vector<int32_t> layers;
    std::vector<int32_t> heads;
    std::vector<int32_t> steps;
    std::vector<int32_t> rows; // query positions
    std::vector<Tap>     taps   = {Tap::pattern};
    TapReduce            reduce = TapReduce::heads;
    RecordType           type   = RecordType::f16;
    std::vector<Region>  regions; // for TapReduce::regions; kept in the file's meta.json whatever the reduction
    uint64_t             max_size = 8ull << 30; // bytes; a run that might need more is refused
    LogCallback          log;
};

// What a recording tells about its run besides what it sees.
struct RecordedRun {
    std::string              prompt; // text
    std::vector<int32_t>     prompt_tokens;
    ContextParams            context;
    GenerateParams           generate;            // n_predict resolved (answer_length)
    bool                     single_pass = false; // no generation, one pass over the prompt: step 0
    std::vector<int32_t>     canvas;              // single_pass: the pass is about these, behind a prompt that was read
    std::vector<std::string> edits;               // of the attention, as typed
};

// Writes run.npz while a generation goes on: activations are handed to a thread of its own through a bounded queue, the file
// appears under its name when finish() returns. Dropped without finish() it leaves nothing behind.
class Recorder {
public:
    // Checks the params against the model and the run, predicts the size, creates the temporary file.
    Recorder(const RecordParams & params, const ModelInfo & info, const Vocab & vocab, const RecordedRun & run);
    ~Recorder();
    Recorder(const Recorder &)             = delete;
    Recorder & operator=(const Recorder &) = delete;

    uint64_t predicted_size() const; // an upper bound, bytes

    // Adds the taps of that step to the request.
    void prepare(int32_t step, ForwardRequest & request);
    // The step is complete: with what it wrote and the sequence as it now is.
    void end_step(const StepReport & report, const std::vector<int32_t> & tokens);
    // Both, in front of what the parameters call already.
    void attach(GenerateParams & params);

    // Ends the file behind the last complete step and gives it its name. Also for a run that failed or was stopped: what is complete
    // is kept, and meta.json says so. Without any complete step there is no file, and the log hears of it.
    void finish();

private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace buoy
