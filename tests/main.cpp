#define DOCTEST_CONFIG_IMPLEMENT
#include "support/skip.h"

#include <doctest/doctest.h>

int main(int argc, char ** argv) {
    constexpr int skipped = 77; // SKIP_RETURN_CODE
    const int     code    = doctest::Context(argc, argv).run();
    return code == 0 && buoy::test::was_skipped() ? skipped : code;
}
