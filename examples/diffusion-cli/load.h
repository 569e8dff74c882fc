#pragma once

#include "buoy/context.h"
#include "buoy/infill.h"
#include "buoy/vocab.h"
#include "console.h"
#include "params.h"
#include "prompt.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

// What there is to generate from; nothing for a chat.
struct Request {
    std::optional<buoy::Infill> infill;
    Prompt                      prompt;
};

Request make_request(const CliParams & params, const buoy::Vocab & vocab);

// Settles what follows from prompt and vocabulary; throws buoy::Error where the context is too short for them.
void complete(CliParams & params, const buoy::Vocab & vocab, size_t n_prompt);

// With a bar on a terminal. Null where Ctrl-C came first.
std::unique_ptr<buoy::Context> load_context(const buoy::ModelFile & file, const CliParams & params);

// Tells what is odd about the request and is done all the same.
void warn(const CliParams & params, const Console & console, const buoy::ModelInfo & info, int64_t n_positions);
