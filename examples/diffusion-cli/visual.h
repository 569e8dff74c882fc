#pragma once

#include "buoy/generate.h"
#include "buoy/vocab.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

// One token of the text that is being written.
struct VisualCell {
    enum class State { settled, fresh, masked };

    std::string bytes; // may be part of a character
    State       state = State::settled;
};

struct VisualFrame {
    std::vector<VisualCell> cells;
    std::string             status;
    int                     width  = 80; // of the terminal
    int                     height = 24;
    bool                    color  = true;
};

// The text, wrapped to the width, and the status below it: at most height - 1 lines, those around the first mask. Every line
// clears what was behind it; the cursor ends behind the status. n_lines gets the number of lines.
std::string render(const VisualFrame & frame, int & n_lines);

// The same as one line without control characters, masks as _.
std::string render_plain(const VisualFrame & frame);

// Shows a generation on stderr: in place on a terminal, a line per step elsewhere.
class Visual {
public:
    // first: the position where what is shown begins; total: tokens that will be written
    Visual(const buoy::Vocab & vocab, int32_t mask_id, size_t first, int64_t total);
    ~Visual();

    void update(const buoy::StepReport & step, const std::vector<int32_t> & tokens);

private:
    VisualFrame make_frame(const buoy::StepReport & step, const std::vector<int32_t> & tokens) const;

    const buoy::Vocab &                   vocab_;
    const std::vector<int32_t>            end_ids_;
    const int32_t                         mask_id_;
    const size_t                          first_;
    const int64_t                         total_;
    const bool                            in_place_;
    int64_t                               done_    = 0;
    int                                   n_lines_ = 0; // of the frame on the screen
    std::chrono::steady_clock::time_point begin_;
    std::chrono::steady_clock::time_point drawn_{};
    std::vector<int32_t>                  fresh_; // positions written since the last frame
};
