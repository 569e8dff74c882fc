#pragma once

namespace buoy {

// Started with a standard stream closed, a program's next file would take its number and get what is printed. This puts a
// stand-in there, to which writing fails as to a closed stream. The first thing a main does.
void fill_standard_streams();

} // namespace buoy
