#include "buoy/edit.h"
#include "buoy/error.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace buoy;
using Kind = PositionTerm::Kind;

namespace {

void check_refused(const std::string & text, const std::string & culprit) {
    CAPTURE(text);
    try {
        parse_edit(text);
        FAIL_CHECK("accepted");
    } catch (const Error & error) {
        const std::string message = error.what();
        CAPTURE(message);
        CHECK(message.find("edit '") == 0);
        CHECK(message.find(culprit) != std::string::npos);
        CHECK(message.find('\n') == std::string::npos);
    }
}

} // namespace

TEST_CASE("index ranges: lists, ranges, open ends and all") {
    CHECK(parse_index_ranges("--x", "0,4-7") == IndexRanges{{0, 0}, {4, 7}});
    CHECK(parse_index_ranges("--x", "8-") == IndexRanges{{8, open_end}});
    CHECK(parse_index_ranges("--x", "all").empty());
    CHECK(parse_index_ranges("--x", "*").empty());
    for (const char * text :
         {"", ",", "1,", ",1", "a", "-1", "3-1", "1--2", "1.5", "1 2", "99999999999", "+1", "0,all", "1-2-3"}) {
        CAPTURE(text);
        CHECK_THROWS_WITH_AS(parse_index_ranges("--attn-layers", text), doctest::Contains("--attn-layers: "), Error);
    }
}

TEST_CASE("index ranges: resolved against what is there") {
    CHECK(resolve_ranges("--x", {{4, 7}, {0, 0}, {5, 5}}, "layer", 8) == std::vector<int32_t>{0, 4, 5, 6, 7});
    CHECK(resolve_ranges("--x", {{6, open_end}}, "layer", 8) == std::vector<int32_t>{6, 7});
    CHECK(resolve_ranges("--x", {}, "layer", 8).empty());
    CHECK_THROWS_WITH_AS(resolve_ranges("--x", {{2, 8}}, "layer", 8), "--x: there is no layer 8, expected 0 to 7",
                         Error);
    CHECK_THROWS_WITH_AS(resolve_ranges("--x", {{8, open_end}}, "layer", 8),
                         "--x: there is no layer 8, expected 0 to 7", Error);
}

TEST_CASE("edit: the examples of the manual") {
    EditSpec spec = parse_edit("drop keys=sinks layers=0-7 steps=*");
    CHECK(spec.bias == -std::numeric_limits<float>::infinity());
    REQUIRE(spec.keys.size() == 1);
    CHECK(spec.keys[0].kind == Kind::sinks);
    CHECK(spec.keys[0].epsilon == 3.0f);
    CHECK(spec.layers == IndexRanges{{0, 7}});
    CHECK(spec.steps.empty());
    CHECK(spec.queries.empty());

    spec = parse_edit("drop keys=0");
    REQUIRE(spec.keys.size() == 1);
    CHECK(spec.keys[0].kind == Kind::range);
    CHECK(spec.keys[0].first == 0);
    CHECK(spec.keys[0].last == 0);

    spec = parse_edit("bias keys=12-15 heads=3 +4.0");
    CHECK(spec.bias == 4.0f);
    CHECK(spec.keys[0].first == 12);
    CHECK(spec.keys[0].last == 15);
    CHECK(spec.heads == IndexRanges{{3, 3}});

    spec = parse_edit("bias keys=anchors@0 +4.0");
    CHECK(spec.keys[0].kind == Kind::anchors);
    CHECK(spec.keys[0].step == 0);
}

TEST_CASE("edit: combined keys, parameters, regions and queries") {
    const EditSpec spec = parse_edit("  bias -1.5e0\tkeys=0,doc1,sinks:2.5,anchors:1@3,20- queries=answer,7 ");
    CHECK(spec.bias == -1.5f);
    REQUIRE(spec.keys.size() == 5);
    CHECK(spec.keys[1].kind == Kind::region);
    CHECK(spec.keys[1].name == "doc1");
    CHECK(spec.keys[2].epsilon == 2.5f);
    CHECK(spec.keys[3].epsilon == 1.0f);
    CHECK(spec.keys[3].step == 3);
    CHECK(spec.keys[4].last == open_end);
    REQUIRE(spec.queries.size() == 2);
    CHECK(spec.queries[0].name == "answer");
    CHECK(spec.queries[1].first == 7);
    CHECK(parse_edit("bias keys=0 -1e4").bias == -10000.0f);
    CHECK(parse_edit("bias keys=sinkhole +1").keys[0].kind == Kind::region); // only the word itself means something
}

TEST_CASE("edit: what can't be read is named") {
    check_refused("", "begin with drop or bias");
    check_refused("mask keys=0", "begin with drop or bias");
    check_refused("drop", "it needs keys");
    check_refused("drop keys=", "empty part");
    check_refused("drop keys=0,", "empty part");
    check_refused("drop keys=3-1", "'3-1'");
    check_refused("drop keys=-1", "'-1'");
    check_refused("drop keys=1x", "'1x'");
    check_refused("drop keys=0 keys=1", "keys is given twice");
    check_refused("drop keys=0 layer=1", "'layer' is unknown");
    check_refused("drop keys=0 layers=x", "layers: 'x'");
    check_refused("drop keys=0 heads=", "heads: ''");
    check_refused("drop keys=0 steps=2-1", "steps: '2-1'");
    check_refused("drop keys=0 queries=sinks", "queries are positions");
    check_refused("drop keys=0 +4", "drop takes none");
    check_refused("bias keys=0", "needs a bias");
    check_refused("bias keys=0 +4 +5", "second bias");
    check_refused("bias keys=0 +x", "'+x'");
    check_refused("bias keys=0 +-4", "'+-4'");
    check_refused("bias keys=0 -inf", "'-inf'");
    check_refused("bias keys=0 +nan", "'+nan'");
    check_refused("bias keys=0 4.0", "'4.0'");
    check_refused("bias keys=0 +3e38", "'+3e38' is too large a bias, expected -10000 to +10000");
    check_refused("bias keys=0 -10001", "'-10001' is too large");
    check_refused("drop keys=sinks@1", "found in every step");
    check_refused("drop keys=sinks:x", "standard deviations");
    check_refused("drop keys=sinks:-1", "standard deviations");
    check_refused("bias keys=anchors +1", "anchors@0");
    check_refused("bias keys=anchors@ +1", "no step");
    check_refused("bias keys=anchors@-1 +1", "no step");
}
