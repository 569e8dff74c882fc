#pragma once

#include "buoy/infill.h"
#include "buoy/session.h"
#include "buoy/vocab.h"
#include "params.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

// What a run needs, loaded.
struct Session {
    const CliParams &   params;
    const buoy::Vocab & vocab;
    buoy::Context &     context;
    buoy::Session &     sequence; // of the context, that answers are generated in
    double              load_ms = 0.0;
};

struct Answer {
    buoy::GenerateParams params; // with the number of tokens that this prompt left room for
    buoy::Generation     generation;
    std::string          text;
};

enum class Printed {
    text,    // as it comes, or at the end of denoising; then a newline
    nothing, // the caller will
};

// Adds to the parameters of a generation what looks at it or changes it.
using Attach = std::function<void(buoy::GenerateParams &)>;

// Generates, with a bar or the visual mode on stderr, until done or interrupted. infill: what the prompt was made of, if it has
// gaps; its text is all of it.
Answer answer(const Session & session, const std::vector<int32_t> & prompt, Printed printed, const Attach & attach,
              const buoy::Infill * infill = nullptr);

// Why there is nothing to read, where the model wrote no text at all.
std::optional<std::string> empty_note(const Session & session, const Answer & answer);

// One line: where the time went.
std::string timings_text(const Session & session, const buoy::Generation & generation);
