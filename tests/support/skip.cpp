#include "support/skip.h"

#include <doctest/doctest.h>

namespace buoy::test {

namespace {

bool & skipped() {
    static bool any = false;
    return any;
}

} // namespace

void skip(const std::string & why) {
    MESSAGE("skipped: " << why);
    skipped() = true;
}

bool was_skipped() { return skipped(); }

} // namespace buoy::test
