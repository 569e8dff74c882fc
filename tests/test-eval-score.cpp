// Scores of answers, against an implementation in Python (tests/eval/reference.py) and by hand.

#include "eval/normalize.h"
#include "eval/score.h"
#include "support/paths.h"
#include "support/python.h"
#include "support/skip.h"

#include <doctest/doctest.h>

#include <fstream>

using namespace buoy;
using namespace buoy::test;

TEST_CASE("scores are those of an independent implementation") {
    if (numpy_python().empty()) {
        skip("no Python with numpy");
        return;
    }
    const std::string path = temp_dir() + "/scored.jsonl";
    run_python(test_script("eval", "reference.py"), {path, "500"});
    std::ifstream in(path);
    size_t        n = 0, n_partial = 0;
    for (std::string line; std::getline(in, line); n++) {
        const auto     json   = nlohmann::json::parse(line);
        const QaScores scores = score_answer(json["prediction"], json["answers"]);
        CAPTURE(line);
        CHECK(scores.acc == json["acc"].get<double>());
        CHECK(scores.em == json["em"].get<double>());
        CHECK(scores.f1 == doctest::Approx(json["f1"].get<double>()).epsilon(1e-15));
        n_partial += scores.f1 > 0 && scores.f1 < 1 ? 1 : 0;
    }
    CHECK(n == 500);
    CHECK(n_partial > 50); // else it proves little
}

TEST_CASE("texts are compared without case, punctuation and articles") {
    CHECK(normalized_answer(" The  U.S.A.,\tan \n apple-tree a ") == "usa appletree");
    CHECK(normalized_answer("a theme for them") == "theme for them");
    CHECK(normalized_answer("\xCE\x9F\xCE\x94\xCE\x9F\xCE\xA3") == "\xCE\xBF\xCE\xB4\xCE\xBF\xCF\x82"); // final sigma
    CHECK(normalized_answer("\xC4\xB0") == "i\xCC\x87");                                                // dotted I
    CHECK(normalized_answer("\xE2\x80\x98"
                            "a\xE2\x80\x99") == "\xE2\x80\x98 \xE2\x80\x99"); // only ASCII punctuation goes
    CHECK(normalized_answer("a\xFF") == "\xEF\xBF\xBD");
    CHECK(normalized_answer("the").empty());
}

TEST_CASE("the best right answer counts") {
    const QaScores scores = score_answer("It was May 18, 2018.", {"2017", "May 18, 2018"});
    CHECK(scores.acc == 1.0);
    CHECK(scores.em == 0.0);
    CHECK(scores.f1 == doctest::Approx(0.75)); // 3 of 5 words, 3 of 3
    CHECK(score_answer("", {"x"}).acc == 0.0);
    CHECK(score_answer("", {"x"}).f1 == 0.0);
    CHECK(score_answer("x", {"y", "X."}).em == 1.0);
}
