#pragma once

#include "attn-params.h"
#include "buoy/replay-case.h"
#include "run-flags.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

struct CliParams : RunParams {
    AttnParams attn;

    std::string                     prompt;
    std::string                     prompt_file;
    std::string                     system;
    std::string                     tokens; // "1,2,3" or "@FILE"
    std::optional<buoy::ReplayCase> replay; // --case
    std::vector<int32_t>            canvas; // --canvas
    std::string                     canvas_logits;
    std::string                     logits_out;
    std::string                     log_file;
    std::string                     command; // as typed
    std::string                     visual_out;
    std::optional<int32_t>          visual_delay;  // milliseconds
    std::vector<std::string> denoising_flags;      // --diffusion-… that were given, which only diffusion models heed
    bool                     escape        = true; // \n and others in the prompt of -p
    bool                     prompt_given  = false;
    bool                     raw           = false;
    bool                     parse_special = true; // of a raw prompt
    bool                     chat          = false;
    bool                     history       = true; // of a chat, kept in a file
    bool                     infill        = false;
    bool                     visual        = false;
    bool                     json          = false;
    bool                     perf          = true;
    bool                     verbose       = false;
    bool                     force         = false; // replace outputs

    // tokens-freq
    std::vector<std::string> texts;
    std::string              output;

    // Without --raw, what a user typed never becomes a special token.
    bool parses_special() const { return raw && parse_special; }

    bool prompt_from_stdin() const { return prompt_file == "-" || (prompt_given && prompt == "-"); }
};

// What several flags decide together; throws buoy::Error where they contradict each other.
void settle_cli(CliParams & params);

// The ids of --tokens or --canvas.
std::vector<int32_t> parse_tokens(const char * flag, const std::string & text);
