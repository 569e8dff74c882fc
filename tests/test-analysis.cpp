// Cases worked by hand, and requests that are refused.

#include "analysis/anchors.h"
#include "analysis/received.h"
#include "analysis/retrieval-score.h"
#include "analysis/rollout.h"
#include "analysis/statistics.h"
#include "analysis/token-class.h"
#include "buoy/error.h"
#include "support/cli.h"
#include "support/gguf-bytes.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <cmath>
#include <sstream>

using namespace buoy;
using namespace buoy::analysis;
using namespace buoy::test;
using Positions = std::vector<size_t>;

TEST_CASE("analysis: rules of anchors") {
    // mean 0.1, standard deviation sqrt((0.55² + 9·(0.55/9)²)/10) = 0.18333
    std::vector<double> A(10, 0.35 / 9);
    A[4]             = 0.65;
    const auto found = [&](const char * rule) { return find_anchors(A, parse_rule(rule)); };
    CHECK(found("std:2.9").positions == Positions{4}); // above by 0.55 = 3.0 deviations
    CHECK(found("std:2.9").source() == std::string("rule"));
    CHECK(found("above:0.6").positions == Positions{4});             // the others' mean is 0.0389
    for (const char * rule : {"std:3.1", "above:0.62", "above:3"}) { // the largest column is no anchor
        CAPTURE(rule);
        CHECK(found(rule).positions.empty());
        CHECK(found(rule).source() == std::string("none"));
        CHECK_FALSE(found(rule).from_rule());
    }
    CHECK(found("code").positions == Positions{4});
    CHECK(found("code").source() == std::string("fallback"));
    CHECK_FALSE(found("code").from_rule());
    CHECK(found("bos").positions == Positions{0});
    CHECK(found("top-k:3").positions == Positions{0, 1, 4}); // ties: the first
    CHECK(find_anchors({}, parse_rule("code")).positions.empty());
    CHECK(parse_rule("above:3").text() == "above:3");
    CHECK(parse_rule("code").text() == "code");
    CHECK(mark_label(parse_rule("code")) == "largest column, no threshold is met (rule code)");
    CHECK(share_of(A, {4}) == doctest::Approx(0.65));
    CHECK(resolve_rule(parse_rule("auto"), true).text() == "bos");
    CHECK(resolve_rule(parse_rule("auto"), false).text() == "code");
    for (const char * wrong : {"", "std:", "std:x", "std:-1", "top-k:0", "top-k:1.5", "bos:1", "above", "STD"}) {
        CAPTURE(wrong);
        CHECK_THROWS_AS(parse_rule(wrong), Error);
    }
}

TEST_CASE("analysis: how dispersed, how alike") {
    CHECK(effective_share({0.25, 0.25, 0.25, 0.25}) == doctest::Approx(1));
    CHECK(effective_share({0, 2, 0, 0}) == doctest::Approx(0.25));
    CHECK(effective_share({0.5, 0.5, 0, 0}) == doctest::Approx(0.5));
    CHECK(effective_share({7}) == doctest::Approx(1));
    CHECK(std::isnan(effective_share({0, 0})));
    CHECK(jaccard({1, 2, 3}, {2, 3, 4, 5}) == doctest::Approx(0.4));
    CHECK(std::isnan(jaccard({}, {}))); // nothing to compare
    CHECK(std::isnan(jaccard({1}, {})));
    CHECK(jaccard({1}, {2}) == 0);
    CHECK(total_variation({1, 1}, {3, 1}) == doctest::Approx(0.25));
    CHECK(total_variation({1}, {1, 1}) == doctest::Approx(0.5)); // a column that one does not have
}

TEST_CASE("analysis: a table fits the terminal") {
    Table wide{
        "", {{"model"}, {"layer"}, {"share of the attention %", 1}, {"positions"}, {"tokens that are anchors"}}, {}, 2};
    wide.rows           = {{"a", int64_t{0}, 12.34, 1.5, "0 <s>, 7 word, 12 another"},
                           {"b", int64_t{1}, 2.0, std::nan(""), "none"}};
    const auto lines_of = [](const std::string & text) {
        std::vector<std::string> lines;
        std::istringstream       in(text);
        for (std::string line; std::getline(in, line);) {
            lines.push_back(line);
        }
        return lines;
    };
    CHECK(lines_of(to_text(wide))[0] == "model  layer  share of the attention %  positions  tokens that are anchors");
    CHECK(to_text(wide, 80) == to_text(wide)); // it fits
    const auto stacked = lines_of(to_text(wide, 68));
    REQUIRE(stacked.size() == 5);
    CHECK(stacked[0] == "                 share of");
    CHECK(stacked[1] == "                      the");
    CHECK(stacked[2] == "model  layer  attention %  positions  tokens that are anchors");
    CHECK(stacked[3] == "a          0         12.3      1.500  0 <s>, 7 word, 12 another");
    for (const size_t width : {30, 40, 50, 60, 68, 80}) {
        CAPTURE(width);
        size_t n_keys = 0;
        for (const std::string & line : lines_of(to_text(wide, width))) {
            CHECK(line.size() <= width);
            n_keys += line.rfind("model  layer", 0) == 0 ? 1 : 0;
        }
        CHECK(n_keys >= (width < 50 ? 2 : 1)); // what a row is stands in every part
    }
    CHECK(wrap_words("one two 3.4 % five", 9) == std::vector<std::string>{"one two", "3.4 %", "five"});
    CHECK(wrap_words("unbreakable", 5) == std::vector<std::string>{"unbreakable"});
}

TEST_CASE("analysis: statistics leave out what is no number") {
    const double nan = std::nan("");
    CHECK(spread_of({2, nan, 4}).mean == 3);
    CHECK(spread_of({2, nan, 4}).deviation == doctest::Approx(std::sqrt(2.0)));
    CHECK(spread_of({2}).deviation == 0);
    CHECK(std::isnan(mean_of({nan})));
    CHECK(quantile({4, 1, 3, 2}, 0.5) == 2.5);
    CHECK(quantile({1, 2}, 0.975) == doctest::Approx(1.975));
    CHECK(bootstrap_mean({5, 5, 5}, 1) == std::pair(5.0, 5.0));
    CHECK(std::isnan(bootstrap_mean({5}, 1).first));
    const auto interval = bootstrap_mean({1, 2, 3, 4}, 7);
    CHECK(interval.first >= 1);
    CHECK(interval.first < 2.5);
    CHECK(interval.second > 2.5);
    CHECK(interval == bootstrap_mean({1, 2, 3, 4}, 7));
}

TEST_CASE("analysis: rollout of one layer, and of a region that asks nothing") {
    SquareMatrix sums(2);
    sums.values             = {1, 3, 0, 0}; // the second region has no query rows
    const SquareMatrix flow = rollout({sums});
    // rownorm: (1/4, 3/4), plus I: (5/4, 3/4), rownorm: (5/8, 3/8); the second row is I
    CHECK(flow.at(0, 0) == doctest::Approx(0.625));
    CHECK(flow.at(0, 1) == doctest::Approx(0.375));
    CHECK(flow.at(1, 0) == 0);
    CHECK(flow.at(1, 1) == 1);
    const SquareMatrix twice = rollout({sums, sums});
    CHECK(twice.at(0, 0) == doctest::Approx(0.625 * 0.625));
    CHECK(rollout({}).n == 0);
}

TEST_CASE("analysis: the mean over heads of a pattern") {
    const Array pattern{{2, 2, 2}, {1, 0, 0.5f, 0.5f, 0, 1, 0.5f, 0.5f}}; // [H, Q, K]
    CHECK(mean_over_heads(pattern, TapReduce::none).values == std::vector<float>{0.5f, 0.5f, 0.5f, 0.5f});
}

TEST_CASE("analysis: classes of pieces, words of answers") {
    CHECK(piece_class(" the") == TokenClass::content);
    CHECK(piece_class(", ") == TokenClass::punctuation);
    CHECK(piece_class("…") == TokenClass::punctuation);
    CHECK(piece_class("+$") == TokenClass::punctuation);
    CHECK(piece_class(" \n") == TokenClass::space);
    CHECK(piece_class("\xC2\xA0") == TokenClass::space);
    CHECK(piece_class("猫。") == TokenClass::content);
    CHECK(piece_class("") == TokenClass::content);
    CHECK(rouge1_recall("The cat sat, the end", "a CAT and the mat") == doctest::Approx(40)); // the, cat of 5
    CHECK(std::isnan(rouge1_recall(" .", "x")));
}

TEST_CASE("analysis: requests that are refused") {
    const auto        attention = [](const Args & args) { return run_program({"llama-attention", args, {}, {}, {}}); };
    const std::string dir       = temp_dir();
    const std::string text      = write_file(dir, "text.npz", "not an archive");
    check_refused(attention({"absorption", dir + "/none.npz"}), "none.npz");
    check_refused(attention({"floating", text}), "text.npz");
    check_refused(attention({"absorption"}), "missing: RUN.npz");
    check_refused(attention({"wobble", text}), "--help");
    check_refused(attention({"export", text, "--format", "neuir", "-o", dir + "/out.npz"}), "text.npz");

    const std::string run = dir + "/run.npz";
    REQUIRE(cli({"-m", tiny_model("llada"), "-p", "hi", "-n", "4", "--attn-dump", run}).code == 0);
    check_refused(attention({"absorption", run, "--rule", "loud"}), "loud");
    check_refused(attention({"absorption", run, "--layer", "9"}), "layer 9");
    check_refused(attention({"absorption", run, "--step", "99"}), "step 99");
    check_refused(attention({"qk", run}), "--attn-taps");
    check_refused(attention({"retrieval", run}), "'gold'");
    check_refused(attention({"compare", run}), "2");
    check_refused(attention({"temporal", run, "--json", "--csv"}), "--csv");
    check_refused(attention({"temporal", run, "--label", "a", "--label", "b"}), "--label");
    check_refused(attention({"export", run, "--format", "xls", "-o", dir + "/out.xls"}), "'xls'");
    check_refused(attention({"export", run, "--format", "csv", "-o", run}), "run.npz");
    CHECK(attention({"temporal", run}).code == 0);
}
