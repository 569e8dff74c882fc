// The tests' support code checks with doctest's macros.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
