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

// Settles what follows from prompt and model; throws buoy::Error where the context is too short for prompt and answer. Without -c it
// is as long as they need, but never longer than the model was trained for.
void complete(CliParams & params, const buoy::ModelFile & file, const buoy::Vocab & vocab, const Request & request);

// With a bar on a terminal. Null where Ctrl-C came first.
std::unique_ptr<buoy::Context> load_context(const buoy::ModelFile & file, const CliParams & params);

// Tells what is odd about the request and is done all the same.
void warn(const CliParams & params, const Console & console, const buoy::ModelInfo & info);

// Tells, before a run of more positions than the model was trained for, what it will take.
void warn_long(const CliParams & params, const Console & console, const buoy::Context & context,
               const std::vector<int32_t> & prompt);
