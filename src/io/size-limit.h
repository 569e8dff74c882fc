#pragma once

namespace buoy {

// Where a limit on file sizes is met, writing fails and says so, instead of a signal ending the program. For a main.
void ignore_size_limit_signal();

} // namespace buoy
