#include "buoy/printable.h"

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

TEST_CASE("what reorders or breaks a line is escaped") {
    for (const char * text : {"\u061c", "\u200e", "\u200f", "\u202a", "\u202d", "\u2066", "\u2069", "\u206f", "\u2028",
                              "\u2029", "\u0080", "\u009f"}) {
        CHECK(printable(text).find(text) == std::string::npos);
        CHECK(printable(text).rfind("\\x", 0) == 0);
        CHECK(printable_lines(text) == printable(text));
    }
    for (const char * text :
         {"\u200d", "\u00a0", "\u05d0", "\u0627", "\u2065", "\u2070"}) { // joiners, letters of all scripts
        CHECK(printable(text) == text);
    }
}

TEST_CASE("printable text twice is printable text") {
    const std::string text = "a\x1b[31m\xff\u202e\n\\x1b";
    CHECK(printable(printable(text)) == printable(text));
}

TEST_CASE("text of several lines keeps its lines and tabs, nothing else") {
    CHECK(printable_lines("a\n\tb\r\nc") == "a\n\tb\r\nc");
    CHECK(printable_lines("a\rb") == "a\\x0db");
    CHECK(printable_lines("\x1b]0;x\x07\x08\x7f") == "\\x1b]0;x\\x07\\x08\\x7f");
    CHECK(printable_lines("\xc2\x9b"
                          "2J \xff") == "\\xc2\\x9b"
                                        "2J \\xff");
    const std::string much(100000, 'x');
    CHECK(printable_lines(much) == much);
}

TEST_CASE("JSON stays the same JSON") {
    CHECK(printable_json("{\"a\": \"\u00e9 \u4e16 \U0001f6df\"}\n") == "{\"a\": \"\u00e9 \u4e16 \U0001f6df\"}\n");
    CHECK(printable_json("\"\x7f\u009b\u202e\u2028\"") == "\"\\u007f\\u009b\\u202e\\u2028\"");
}
