// The attention's numbers over a result file, and the figures of a run.

#include "analysis/statistics.h"
#include "buoy/error.h"
#include "eval/figures.h"
#include "support/figure-files.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/text.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

using namespace buoy;
using namespace buoy::test;

namespace {

using Json = nlohmann::ordered_json;

QaResult result_of(const std::string & model, const std::string & condition, size_t item, bool right, Json attention) {
    QaResult result;
    result.model      = model;
    result.condition  = condition;
    result.item       = item;
    result.id         = std::to_string(item + 1);
    result.scores.acc = right ? 1 : 0;
    result.attention  = std::move(attention);
    return result;
}

// Two layers of two heads; the second layer looks at the gold passage when it is right.
Json attention_of(size_t item, bool right, bool passages) {
    const double share = (right ? 0.6 : 0.2) + 0.01 * static_cast<double>(item);
    return {{"absorption", {10.0 + static_cast<double>(item), 20.0}},
            {"anchors", {item, 2}}, // the first answer has none in layer 0
            {"gold", passages ? Json({0.25, share}) : Json()},
            {"recall", passages ? Json(right ? 100.0 : 0.0) : Json()},
            {"retrieval", passages && right ? Json({{0.0, 0.5}, {1.0, 0.0}}) : Json()},
            {"regions", passages ? Json({"bos", "doc1", "answer"}) : Json({"bos", "answer"})},
            {"rollout",
             passages ? Json({{1.0, 0.0, 0.0}, {0.5, 0.5, 0.0}, {0.2, 0.6, 0.2}}) : Json({{1.0, 0.0}, {0.4, 0.6}})}};
}

std::string result_file(bool attention) {
    const std::vector<std::string> conditions = {"closed-book", "passages=2", "gold-position=1",   "gold-position=2",
                                                 "noise=0",     "noise=4",    "edit=sinks-dropped"};
    QaHeader                       header;
    header.n_items   = 6;
    header.n_results = 2 * 6 * conditions.size();
    header.settings = {{"dataset", {{"name", "some.jsonl"}}}, {"models", Json::array()}, {"conditions", Json::array()}};
    std::string lines;
    for (const char * model : {"mdm", "arm"}) {
        header.settings["models"].push_back({{"name", model}});
        for (size_t item = 0; item < 6; item++) {
            for (const std::string & condition : conditions) {
                const bool right = condition != "closed-book" && item % 3 != 0;
                lines +=
                    result_line(result_of(model, condition, item, right,
                                          attention ? attention_of(item, right, condition != "closed-book") : Json()));
            }
        }
    }
    for (const std::string & condition : conditions) {
        header.settings["conditions"].push_back({{"name", condition}});
    }
    const std::string path = temp_dir() + "/results.jsonl";
    std::ofstream(path) << header_line(header) << lines;
    return path;
}

} // namespace

TEST_CASE("correlation: by hand, and what has none") {
    using namespace analysis;
    CHECK(correlation({1, 2, 3}, {2, 4, 6}) == doctest::Approx(1));
    CHECK(correlation({1, 2, 3}, {1, 0, 0}) == doctest::Approx(-std::sqrt(3.0) / 2));
    CHECK(correlation({1, std::nan(""), 2, 3}, {1, 9, 0, 0}) == doctest::Approx(-std::sqrt(3.0) / 2));
    CHECK(std::isnan(correlation({1, 2, 3}, {1, 1, 1})));
    CHECK(std::isnan(correlation({}, {})));
    const auto [low, high] = bootstrap_correlation({1, 2, 3, 4, 5, 6}, {0, 0, 1, 0, 1, 1}, 1);
    CHECK(low < correlation({1, 2, 3, 4, 5, 6}, {0, 0, 1, 0, 1, 1}));
    CHECK(high <= 1);
    CHECK(low > -1);
    CHECK(std::isnan(bootstrap_correlation({1, 2}, {1, 1}, 1).first));
    // a third of the resamples has no wrong answer at all: those that have say nothing about the others
    CHECK(std::isnan(
        bootstrap_correlation({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 1).first));
}

TEST_CASE("attention over a run is the mean of its answers") {
    const std::vector<QaAttention> cells = summarize_attention(result_file(true));
    REQUIRE(cells.size() == 14);
    const QaAttention & closed = cells[0];
    CHECK(closed.condition == "closed-book");
    CHECK(closed.gold.empty());
    CHECK(closed.retrieval.empty());
    CHECK(closed.absorption[0].mean == doctest::Approx(12.5));
    CHECK(closed.with_anchors[0].mean == doctest::Approx(5.0 / 6));
    CHECK(closed.with_anchors[1].mean == 1);
    CHECK(closed.absorption[0].low < 12.5);
    CHECK(closed.absorption[0].high > 12.5);
    CHECK(closed.rollout[1][0] == doctest::Approx(0.4));
    const QaAttention & shown = cells[1];
    CHECK(shown.model == "mdm");
    CHECK(shown.n == 6);
    CHECK(shown.n_retrieval == 4);
    CHECK(shown.gold[0].mean == doctest::Approx(0.25));
    CHECK(shown.gold[1].mean == doctest::Approx((4 * 0.6 + 2 * 0.2 + 0.15) / 6));
    CHECK(std::isnan(shown.correlation[0].mean)); // it never changes
    CHECK(shown.correlation[1].mean > 0.98);
    CHECK(shown.retrieval == std::vector<std::vector<double>>{{0.0, 0.5}, {1.0, 0.0}});
    CHECK(shown.regions == std::vector<std::string>{"bos", "doc1", "answer"});
    CHECK(shown.rollout[2][1] == doctest::Approx(0.6));

    const std::vector<analysis::Table> tables = attention_tables(cells);
    REQUIRE(tables.size() == 5);
    CHECK(contains(analysis::to_text(tables[2]), "49.2"));
    CHECK(contains(analysis::to_text(tables[4]), "L1 H0: 1.00, L0 H1: 0.50"));
    const Json json = attention_json(cells);
    CHECK(json[1]["gold"][1]["mean"] == shown.gold[1].mean);
    CHECK(json[1]["correlation"][0]["mean"].dump() == "null");
}

TEST_CASE("without --attn-metrics there is nothing about attention") {
    const std::string path = result_file(false);
    CHECK(summarize_attention(path).empty());
    CHECK(attention_tables({}).empty());
    const std::vector<QaFigure> figures = qa_figures(summarize(path), {});
    REQUIRE(figures.size() == 3);
    CHECK(figures[0].name == "gold-position");
}

TEST_CASE("a line whose attention is something else is named") {
    const std::string path = result_file(true);
    std::string       text = read_file(path);
    text.replace(text.find("\"rollout\""), 9, "\"rolling\"");
    std::ofstream(path) << text;
    CHECK_THROWS_WITH_AS(summarize_attention(path), doctest::Contains(":2: \"attention\""), Error);
}

TEST_CASE("figures of a run are written as SVG and PNG") {
    const std::string           path    = result_file(true);
    const std::string           dir     = temp_dir() + "/new/figures";
    const std::vector<QaFigure> figures = qa_figures(summarize(path), summarize_attention(path));
    REQUIRE(figures.size() == 7);
    const auto & over = std::get<figure::LineChart>(figures[0].figure.charts.at(0));
    REQUIRE(over.series.size() == 2);
    CHECK(over.series[0].x == std::vector<double>{1, 2});
    CHECK(over.series[0].y[0] == doctest::Approx(4.0 / 6));
    const auto & bars = std::get<figure::BarChart>(figures[2].figure.charts.at(0));
    CHECK(bars.groups == std::vector<std::string>{"closed-book", "passages=2", "edit=sinks-dropped"});
    write_qa_figures(dir, figures);
    write_qa_figures(dir, figures); // over what is there
    for (const QaFigure & one : figures) {
        CAPTURE(one.name);
        CHECK(xml_fault(read_file(dir + "/" + one.name + ".svg")) == "");
        CHECK(decode_png(read_file(dir + "/" + one.name + ".png")).width > 100);
    }
    CHECK_THROWS_AS(write_qa_figures(path + "/below-a-file", figures), Error);
}
