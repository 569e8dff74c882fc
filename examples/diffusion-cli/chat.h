#pragma once

#include "answer.h"
#include "console.h"

#include <string>

// Throws buoy::Error where the model has no chat template.
void check_can_chat(const CliParams & params, const buoy::Vocab & vocab);

// Messages from standard input, answers on standard output, until /exit, the end of the input or two Ctrl-C.
// first_message is asked first where it is not empty. Returns the exit code.
int chat(const Session & session, const Console & console, const std::string & first_message);
