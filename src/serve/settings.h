#pragma once

#include "serve/completion-request.h"
#include "serve/fields.h"

namespace buoy::serve {

// The fields that say how tokens are chosen and denoised. Throws HttpError.
void read_settings(const Fields & body, const ServedModel & model, GenerateParams & params);

// diffusion.seed_canvas and diffusion.pinned: parts of the answer that are given. Appends the answer's masks to the prompt.
void read_canvas(const Fields & body, const ServedModel & model, Prompt & prompt);

// Throws HttpError where the model can't do what they ask.
void check_settings(const ServedModel & model, const GenerateParams & params);

// A message of the library, which has its settings in backticks, with a request's fields instead.
std::string in_fields(const std::string & message);

} // namespace buoy::serve
