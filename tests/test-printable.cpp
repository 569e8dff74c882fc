#include "buoy/message.h"

#include <doctest/doctest.h>

using namespace buoy;

TEST_CASE("printable text passes through") {
    CHECK(printable("") == "");
    CHECK(printable("blk.0.attn_q.weight") == "blk.0.attn_q.weight");
    CHECK(printable("\u00e9 \u4e16 \U0001f6df") == "\u00e9 \u4e16 \U0001f6df");
    CHECK(in_quotes("key") == "'key'");
}

TEST_CASE("control characters are escaped") {
    CHECK(printable("a\nb\tc\x7f") == "a\\x0ab\\x09c\\x7f");
    CHECK(printable("\x1b[31m") == "\\x1b[31m");
    CHECK(printable(std::string_view("a\0b", 3)) == "a\\x00b");
    CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");          // a one-character CSI
    CHECK(printable("\xe2\x80\xae") == "\\xe2\\x80\\xae"); // right-to-left override
}

TEST_CASE("invalid UTF-8 is escaped byte by byte") {
    CHECK(printable("\x80") == "\\x80");
    CHECK(printable("\xff\xfe") == "\\xff\\xfe");
    CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");                   // overlong
    CHECK(printable("\xe0\x80\xaf") == "\\xe0\\x80\\xaf");          // overlong
    CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");          // lone surrogate
    CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80"); // beyond the last code point
    CHECK(printable("\xe4\xb8") == "\\xe4\\xb8");                   // cut
    CHECK(printable("\xe4x") == "\\xe4x");
}

TEST_CASE("long text is cut") {
    CHECK(printable(std::string(100, 'a'), 10) == "aaaaaaaaaa...");
    CHECK(printable(std::string(10, 'a'), 10) == "aaaaaaaaaa");
    CHECK(in_quotes(std::string(5000, 'a')).size() < 120);
}
