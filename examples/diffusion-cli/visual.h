#pragma once

#include "buoy/generate.h"
#include "buoy/screencast.h"
#include "buoy/vocab.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// The part of a sequence that is shown while it is written, and how far that is.
class ShownText {
public:
    // A prompt with masks is shown as a whole: what is around them explains them.
    ShownText(const buoy::Vocab & vocab, int32_t mask_id, const std::vector<int32_t> & prompt, int32_t n_predict);

    std::vector<buoy::figure::ScreenToken> tokens(const std::vector<int32_t> & sequence,
                                                  const std::vector<int32_t> & fresh) const; // positions

    // What a step wrote is added up; sequence: as it left it.
    std::string status(const buoy::StepReport & step, const std::vector<int32_t> & sequence);

    int64_t n_done() const { return n_done_; }

private:
    const buoy::Vocab &        vocab_;
    const std::vector<int32_t> end_ids_;
    const int32_t              mask_id_;
    size_t                     first_; // position
    int64_t                    total_;
    int64_t                    n_done_ = 0;
};

// How long a step is seen: as asked, else 150 ms, but all of them together for 6 s at most.
int visual_delay(std::optional<int32_t> asked, int64_t n_steps);

struct VisualSize {
    int columns = 80;
    int rows    = 24;

    bool operator==(const VisualSize & other) const = default;
};

// What a terminal is sent for a frame, and the columns that its lines take.
struct Drawing {
    std::string      text;
    std::vector<int> columns;

    // Rows above the cursor, once the terminal has that size. One that became narrower breaks lines.
    int rows_above(const VisualSize & size) const;
};

// The text, wrapped to the width, and the status below it: at most rows - 1 lines, those around the first mask. Every line
// clears what was behind it; the cursor ends behind the status.
Drawing draw(const buoy::figure::ScreenFrame & frame, const VisualSize & size, bool color);

// The same as one line without control characters, masks as _.
std::string draw_plain(const buoy::figure::ScreenFrame & frame);

// Shows a generation on stderr: in place on a terminal, a line per step elsewhere.
class Visual {
public:
    Visual(ShownText text, int delay_ms);
    ~Visual();
    Visual(const Visual &)             = delete;
    Visual & operator=(const Visual &) = delete;

    void update(const buoy::StepReport & step, const std::vector<int32_t> & tokens);

    // Spent so that a step is seen, while update() was called.
    double waited_ms() const { return waited_ms_; }

    // The last frame: it stays, or it makes room for the text, which the caller prints, and finish() then puts the status below.
    void make_room();
    void finish();

private:
    using Clock = std::chrono::steady_clock;

    void wait_until_seen();
    void draw_in_place();
    void erase();

    ShownText                 text_;
    const int                 delay_ms_;
    const bool                in_place_;
    const bool                color_;
    bool                      is_open_   = true;
    double                    waited_ms_ = 0;
    Clock::time_point         begin_     = Clock::now();
    Clock::time_point         drawn_at_{};
    bool                      is_drawn_ = true; // the frame that follows
    buoy::figure::ScreenFrame frame_;
    std::vector<int32_t>      fresh_;   // positions written since the last frame
    Drawing                   drawing_; // that is on the screen; no lines: none
    VisualSize                size_;
};
