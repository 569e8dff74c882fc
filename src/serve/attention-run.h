#pragma once

#include "serve/attention-request.h"
#include "serve/completion-request.h"
#include "serve/http.h"
#include "serve/runs.h"

#include <memory>

namespace buoy::serve {

// Attention that one step's positions receive.
struct AttentionFrame {
    struct Layer {
        int32_t              layer  = 0;
        int32_t              n_head = 0;
        std::vector<float>   received; // [n_head, K]
        std::vector<int32_t> anchors;  // positions that receive far more than others
    };

    std::vector<Layer>   layers;
    std::vector<float>   received; // [K], their mean
    std::vector<int32_t> anchors;
};

Json attention_json(const AttentionFrame & frame, AttentionDetail detail);

// Whoever looks at one answer's attention, edits or records it.
class AttentionRun {
public:
    // params: n_predict resolved. Throws Error or HttpError where a layer, head, step or position is not there, or where there is no room.
    AttentionRun(const ServedModel & model, const AttentionRequest & asked, const Prompt & prompt,
                 const GenerateParams & params, int32_t n_steps, Runs & runs);
    ~AttentionRun();
    AttentionRun(const AttentionRun &)             = delete;
    AttentionRun & operator=(const AttentionRun &) = delete;

    // In front of what the parameters call already.
    void attach(GenerateParams & params);

    // Of the step that was computed last; none where nobody asked for that step.
    std::optional<AttentionFrame> take_frame();

    // Gives the recording its name.
    void finish();

    const std::string & run_id() const { return run_id_; } // empty: nothing is recorded
    Json                edit_json() const;                 // null without edits

private:
    void watch(int32_t step, ForwardRequest & request);
    void take(const TapEvent & event);
    void make_recorder(const ServedModel & model, const AttentionRequest & asked, const Prompt & prompt,
                       const GenerateParams & params, int32_t n_steps, const std::vector<Region> & regions);

    Runs &                           runs_;
    std::vector<int32_t>             layers_, heads_, steps_; // of frames
    bool                             in_frames_ = false;
    std::optional<AttentionFrame>    frame_;
    std::unique_ptr<AttentionEditor> editor_;
    std::unique_ptr<Recorder>        recorder_;
    std::string                      run_id_;
};

} // namespace buoy::serve
