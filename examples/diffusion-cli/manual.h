#pragma once

#include <string>

// Chapters of docs/cli.md that the flags don't tell.
extern const char * const manual_introduction;
extern const char * const manual_chapters;

std::string manual_presets(); // from the library's table
