#pragma once

#include <string>
#include <vector>

// The known name that a mistyped one most likely means; empty where none is near. Leading dashes, case and _ for - are no difference.
std::string closest(const std::string & typed, const std::vector<std::string> & known);

// "; did you mean NAME?", or nothing.
std::string did_you_mean(const std::string & typed, const std::vector<std::string> & known);
