#include "io/size-limit.h"

#include <csignal>

namespace buoy {

void ignore_size_limit_signal() { std::signal(SIGXFSZ, SIG_IGN); }

} // namespace buoy
