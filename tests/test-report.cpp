// llama-attention report: what pages carry of their recordings. test-report-slow.cpp looks at them in a browser.

#include "buoy/error.h"
#include "report/matrix-pack.h"
#include "report/page-plan.h"
#include "support/cli.h"
#include "support/gguf-bytes.h"
#include "support/paths.h"
#include "support/python.h"
#include "support/skip.h"

#include <doctest/doctest.h>

#include <limits>

using namespace buoy;
using namespace buoy::test;

namespace {

report::PageShape shape_of(size_t n_steps, size_t n_layers, size_t n_positions, size_t n_heads) {
    report::PageShape shape;
    shape.reduce      = TapReduce::none;
    shape.n_heads     = n_heads;
    shape.n_positions = n_positions;
    for (size_t s = 0; s < n_steps; s++) {
        shape.steps.push_back(static_cast<int32_t>(s));
        shape.n_rows.push_back(n_positions);
    }
    for (size_t l = 0; l < n_layers; l++) {
        shape.layers.push_back(static_cast<int32_t>(l));
    }
    return shape;
}

} // namespace

TEST_CASE("report: heads go first, then steps and layers, then positions") {
    const report::PageShape shape = shape_of(64, 32, 100, 8);
    const uint64_t          whole = 64ull * 32 * 8 * 100 * 104;
    const auto              plan  = [&](uint64_t size) {
        const report::PagePlan out = plan_page(shape, size);
        CHECK(out.size <= size);
        CHECK(out.steps.front() == 0);
        CHECK(out.steps.back() == 63);
        return out;
    };
    CHECK(plan(whole + 64 * 32 * 3).heads);
    const report::PagePlan mean = plan(whole / 7);
    CHECK_FALSE(mean.heads);
    CHECK(mean.steps.size() == 64);
    CHECK(mean.layers.size() == 32);
    const report::PagePlan thin = plan(whole / 8 / 4);
    CHECK(thin.steps.size() < 64);
    CHECK(thin.steps.size() >= 12);
    CHECK(thin.layers.size() >= 8);
    CHECK(thin.pool == 1);
    const report::PagePlan pooled = plan(whole / 8 / 100);
    CHECK(pooled.steps.size() >= 12);
    CHECK(pooled.layers.size() >= 8);
    CHECK(pooled.pool > 1);
    CHECK_THROWS_AS(plan_page(shape, 3), Error);
    CHECK(plan_page(shape_of(0, 32, 100, 8), 10).steps.empty());
}

TEST_CASE(
    "report: steps of an autoregressive run are rows of one pattern, none is left out before positions are pooled") {
    report::PageShape shape = shape_of(900, 16, 1000, 1);
    shape.n_rows.assign(900, 1);
    shape.n_rows[0]            = 100;
    const report::PagePlan out = plan_page(shape, 1000 * 1004 * 2);
    CHECK(out.steps.size() == 900);
    CHECK(out.layers.size() >= 8);
    CHECK(out.pool > 1);
}

TEST_CASE("report: a packed row is its largest value and bytes of square roots") {
    const float                nan = std::numeric_limits<float>::quiet_NaN();
    const report::PackedMatrix m   = report::pack_rows({{1, 5}, {0.0f, 0.25f, 1.0f, nan, 0.0625f}}, {0}, true, 1);
    CHECK(m.K == 5);
    CHECK(m.bytes ==
          std::string("\x00\x00\x80\x3f\x00\x7f\xfe\xff\x40", 9)); // 1.0f; 0, 127, 254, none, 63.5 rounded up
    const report::PackedMatrix zero = report::pack_rows({{1, 2}, {0.0f, 0.0f}}, {0}, true, 1);
    CHECK(zero.bytes == std::string(6, '\0'));
    // two positions to one: rows 0 and 1 averaged, row 4 alone
    const report::PackedMatrix pooled =
        report::pack_rows({{3, 3}, {0.5f, 0.5f, 0.0f, 0.0f, 0.5f, 0.5f, 0.0f, 0.0f, 1.0f}}, {0, 1, 4}, true, 2);
    CHECK(pooled.rows == std::vector<int32_t>{0, 2});
    CHECK(pooled.K == 2);
    CHECK(pooled.bytes.substr(0, 4) == std::string("\x00\x00\x40\x3f", 4)); // 0.75 of keys 0 and 1
}

TEST_CASE("report: a page carries its recording's numbers, and as many as it may") {
    if (numpy_python().empty()) {
        skip("no Python with numpy");
        return;
    }
    const std::string out =
        run_python(test_script("report", "payload.py"), {bin_dir() + "/llama-attention", temp_dir()});
    CHECK(contains(out, "numbers"));
}
