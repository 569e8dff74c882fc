#pragma once

// Started with standard input, output or error closed, a program's next file would take its number, and what is printed would end up in
// that file. This puts a stand-in in each free place, to which writing fails as to a closed stream: the first thing that every main does.
void open_standard_streams();
