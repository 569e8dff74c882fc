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

using namespace buoy;
using namespace buoy::analysis;
using namespace buoy::test;
using Positions = std::vector<size_t>;

TEST_CASE("analysis: rules of anchors") {
    // mean 0.1, standard deviation sqrt((0.55² + 9·(0.55/9)²)/10) = 0.18333
    std::vector<double> A(10, 0.35 / 9);
    A[4] = 0.65;
    CHECK(anchors_of(A, parse_rule("std")) == Positions{4}); // above by 0.55 = 3.0 deviations only as the largest
    CHECK(find_above(A, parse_rule("std:2.9")) == Positions{4});
    CHECK(find_above(A, parse_rule("std:3.1")).empty());
    CHECK(anchors_of(A, parse_rule("code")) == Positions{4});
    CHECK(find_above(A, parse_rule("code")).empty());
    CHECK(find_above(A, parse_rule("above:0.6")) == Positions{4}); // the others' mean is 0.0389
    CHECK(find_above(A, parse_rule("above:0.62")).empty());
    CHECK(anchors_of(A, parse_rule("bos")) == Positions{0});
    CHECK(anchors_of(A, parse_rule("top-k:3")) == Positions{0, 1, 4}); // ties: the first
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
    CHECK(jaccard({}, {}) == 1);
    CHECK(jaccard({1}, {}) == 0);
    CHECK(total_variation({1, 1}, {3, 1}) == doctest::Approx(0.25));
    CHECK(total_variation({1}, {1, 1}) == doctest::Approx(0.5)); // a column that one does not have
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
    check_refused(attention({"absorption"}), "recordings is required");
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
