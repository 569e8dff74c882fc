#pragma once

#include "buoy/vocab.h"

#include <string>

namespace buoy {

// Text that arrives token by token: what comes out are whole characters, and all of it together is what decode() gives.
class TextStream {
public:
    explicit TextStream(const Vocab & vocab) : vocab_(vocab) {}

    std::string push(int32_t id); // what can be shown now
    std::string finish();         // what was held back

private:
    const Vocab & vocab_;
    std::string   held_; // bytes of a character that is not complete
    bool          started_ = false;
};

} // namespace buoy
