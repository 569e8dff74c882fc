#pragma once

#include <string>

class Program;

// Scripts that let a shell complete the program's commands, flags and their values.
std::string bash_completion(const Program & program);
std::string zsh_completion(const Program & program);
std::string fish_completion(const Program & program);
