#pragma once

#include <functional>
#include <string>

// What to do instead of using a flag that llama.cpp has and we don't; empty where llama.cpp does not have it either. has: whether
// the program has a flag of ours, by one of its names.
std::string llama_flag_advice(const std::string & name, const std::function<bool(const std::string &)> & has);
