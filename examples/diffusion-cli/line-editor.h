#pragma once

#include "line-reader.h"

// None where the build has no libedit, or the terminal or the locale can't do it.
std::unique_ptr<LineReader> make_line_editor(const std::string & history);
