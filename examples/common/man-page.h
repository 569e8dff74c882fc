#pragma once

#include <string>

class Program;

// The program's manual for man(1), section 1, in roff.
std::string man_page(const Program & program);
