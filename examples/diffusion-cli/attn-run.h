#pragma once

#include "answer.h"
#include "console.h"
#include "prompt.h"

#include <nlohmann/json.hpp>

#include <memory>
#include <optional>

// Recording and edits of one answer, as the --attn flags ask for them; nothing where they don't.
class AttnRun {
public:
    // Checks the flags against model and prompt and tells how large the recording may become. number: of the answer, in a chat.
    AttnRun(const Session & session, const Console & console, const Prompt & prompt, int number = 1);

    // Where finish() was not reached, what is complete is kept all the same.
    ~AttnRun();
    AttnRun(const AttnRun &)             = delete;
    AttnRun & operator=(const AttnRun &) = delete;

    Attach attach() const;

    // The recording gets its name, and edits that came to nothing are told. n_steps: complete ones.
    void finish(size_t n_steps);

    // Around the one pass of --logits-out, which is step 0.
    void prepare_pass(buoy::ForwardRequest & request) const;
    void finish_pass(const std::vector<int32_t> & tokens);

    nlohmann::ordered_json recording_json() const; // null without a recording
    nlohmann::ordered_json edit_json() const;      // null without edits

private:
    void tell_unused() const;

    const Console &                        console_;
    std::string                            path_; // of the recording
    std::unique_ptr<buoy::Recorder>        recorder_;
    std::unique_ptr<buoy::AttentionEditor> editor_;
    nlohmann::ordered_json                 recording_;
};

// The run without edits against the one with them, for --json and as one line.
struct Compared {
    nlohmann::ordered_json json; // null where nothing was compared
    std::string            line;
};

Compared compare_answers(const Answer & unedited, const Answer & edited);
