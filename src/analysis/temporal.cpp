#include "analysis/labels.h"
#include "analysis/received.h"
#include "analysis/studies.h"
#include "buoy/message.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

namespace buoy::analysis {

namespace {

struct Drift {
    std::vector<int32_t>  steps;
    std::vector<Received> received; // [step][K], the mean of the layers
    std::vector<Anchors>  anchors;  // of each step
};

Drift drift_of(const Recording & recording, const std::vector<int32_t> & layers, const AnchorRule & rule,
               const StudyParams & params) {
    Drift out;
    for_each_received(recording, layers, params.step, "temporal", [&](int32_t step, size_t, const Received & A) {
        if (out.steps.empty() || out.steps.back() != step) {
            out.steps.push_back(step);
            out.received.emplace_back(A.size());
        }
        for (size_t j = 0; j < A.size(); j++) {
            out.received.back().at(j) += A[j] / static_cast<double>(layers.size());
        }
    });
    for (const Received & A : out.received) {
        out.anchors.push_back(find_anchors(A, rule));
    }
    return out;
}

// How many standard deviations each column is above the mean; NaN where all are the same.
std::vector<double> z_scores(const Received & A) {
    double mean = 0, square = 0;
    for (const double value : A) {
        mean += value / static_cast<double>(A.size());
    }
    for (const double value : A) {
        square += (value - mean) * (value - mean) / static_cast<double>(A.size());
    }
    const double        deviation = std::sqrt(square); // of columns that are alike it is rounding
    std::vector<double> z;
    for (const double value : A) {
        z.push_back(deviation > 1e-12 * mean ? (value - mean) / deviation : std::numeric_limits<double>::quiet_NaN());
    }
    return z;
}

double largest_z(const Received & A) { return z_scores(A)[largest(A)]; }

// What becomes of the anchors over the steps.
struct Course {
    size_t n_steps = 0, n_with = 0;        // steps; those in which the rule finds an anchor
    size_t n_appeared = 0, n_vanished = 0; // anchors, from one step to the next
    size_t n_compared = 0,
           n_moved    = 0; // pairs of consecutive steps that both have anchors; those between which the largest moves
    size_t n_fallback = 0; // steps
};

size_t largest_of(const Received & A, const Anchors & anchors) {
    return *std::max_element(anchors.positions.begin(), anchors.positions.end(),
                             [&](size_t a, size_t b) { return A[a] < A[b]; });
}

Course course_of(const Drift & drift) {
    Course out;
    out.n_steps = drift.steps.size();
    for (size_t s = 0; s < drift.steps.size(); s++) {
        out.n_with += drift.anchors[s].from_rule() ? 1 : 0;
        out.n_fallback += drift.anchors[s].fallback ? 1 : 0;
        if (s == 0) {
            continue;
        }
        const Anchors & before = drift.anchors[s - 1];
        const Anchors & now    = drift.anchors[s];
        const size_t    both   = n_common(before.positions, now.positions);
        out.n_appeared += now.positions.size() - both;
        out.n_vanished += before.positions.size() - both;
        if (!before.positions.empty() && !now.positions.empty()) {
            out.n_compared++;
            out.n_moved += largest_of(drift.received[s - 1], before) != largest_of(drift.received[s], now) ? 1 : 0;
        }
    }
    return out;
}

Json course_json(const Course & course) {
    return {{"steps", course.n_steps},       {"with_anchors", course.n_with}, {"fallback", course.n_fallback},
            {"appeared", course.n_appeared}, {"vanished", course.n_vanished}, {"compared", course.n_compared},
            {"moved", course.n_moved}};
}

// "buoy-mdm: anchors in 64 of 64 steps; between steps, 3 appear and 5 vanish. The largest anchor moves in 2 of 63 …" where: " (mean of
// 4 layers, …)", or nothing for one.
std::string conclusion(const std::string & model, const Course & course, const AnchorRule & rule,
                       const std::string & where) {
    std::string out = model + ": ";
    if (rule.has_threshold()) {
        out += concat("anchors in ", course.n_with, " of ", course.n_steps, course.n_steps == 1 ? " step" : " steps",
                      where);
        if (course.n_steps > 1 && course.n_with > 0) {
            const bool same = course.n_appeared + course.n_vanished == 0;
            out += same
                       ? std::string(", the same in all")
                       : concat("; between steps, ", course.n_appeared, course.n_appeared == 1 ? " appears" : " appear",
                                " and ", course.n_vanished, course.n_vanished == 1 ? " vanishes" : " vanish");
        }
        out += ". ";
    }
    if (course.n_compared == 0) {
        return out +
               (course.n_with > 0 || !rule.has_threshold() ? "There are no two consecutive steps to compare." : "");
    }
    std::string subject = largest_text(rule);
    if (rule.has_threshold()) { // a sentence of its own
        subject[0] = static_cast<char>(std::toupper(subject[0]));
    }
    return out + concat(subject, " moves in ", course.n_moved, " of ", course.n_compared, " pairs of consecutive steps",
                        rule.has_threshold() ? " that both have one." : ".");
}

// The z of the anchors over some steps, from the smallest to the largest; without anchors, of the largest column.
std::string z_range(const Drift & drift, size_t first, size_t last) {
    double least = std::numeric_limits<double>::infinity(), most = -least;
    for (size_t s = first; s < last; s++) {
        const std::vector<double> z         = z_scores(drift.received[s]);
        std::vector<size_t>       positions = drift.anchors[s].positions;
        if (positions.empty()) {
            positions = {largest(drift.received[s])};
        }
        for (const size_t j : positions) {
            least = std::min(least, z[j]);
            most  = std::max(most, z[j]);
        }
    }
    const std::string a = number_text(least, 1), b = number_text(most, 1);
    return a == b ? a : a + "–" + b;
}

// One row for each run of steps with the same anchors, and the same of them still masked.
void add_rows(Table & table, const Recording & recording, const Drift & drift, bool several) {
    const auto cell = [&](size_t s) { return anchors_cell(recording, drift.anchors[s], drift.steps[s]); };
    for (size_t first = 0, next = 0; first < drift.steps.size(); first = next) {
        const std::string anchors = cell(first);
        for (next = first + 1; next < drift.steps.size() && cell(next) == anchors &&
                               drift.anchors[next].positions == drift.anchors[first].positions;
             next++) {
        }
        const std::string to = next - first > 1 ? concat("–", drift.steps[next - 1]) : std::string();
        table.rows.emplace_back();
        if (several) {
            table.rows.back().emplace_back(base_name(recording.path()));
        }
        table.rows.back().emplace_back(concat(drift.steps[first], to));
        table.rows.back().emplace_back(z_range(drift, first, next));
        table.rows.back().emplace_back(anchors);
    }
}

figure::HeatMap map_of(const Recording & recording, const Drift & drift, const AnchorRule & rule) {
    figure::HeatMap map;
    map.rows    = drift.steps.size();
    map.columns = recording.n_positions();
    map.values.assign(map.rows * map.columns, std::numeric_limits<float>::quiet_NaN());
    for (size_t s = 0; s < map.rows; s++) {
        for (size_t j = 0; j < drift.received[s].size(); j++) {
            map.values[s * map.columns + j] = static_cast<float>(drift.received[s][j]);
        }
        for (size_t j : drift.anchors[s].positions) {
            (drift.anchors[s].from_rule() && rule.has_threshold() ? map.hatched : map.outlined).emplace_back(s, j);
        }
        map.row_labels.push_back(std::to_string(drift.steps[s]));
    }
    map.x_label        = "position (token of the finished sequence)";
    map.y_label        = "step";
    map.value.label    = "received attention";
    map.column_labels  = token_labels(recording);
    map.separators     = answer_separator(recording);
    map.hatched_label  = mark_label(rule);
    map.outlined_label = mark_label(rule);
    return map;
}

} // namespace

Findings study_temporal(const StudyParams & params) {
    const AnchorRule asked = params.rule.value_or(AnchorRule{});
    Findings         out;
    Table            steps{"", {{"steps"}, {"z"}, {"anchors (position, token)"}}, {}};
    const bool       several = params.paths.size() > 1;
    if (several) {
        steps.columns.insert(steps.columns.begin(), {"recording"});
        steps.n_keys = 2;
    }
    out.data.columns = {{"recording"}, {"model"},    {"step"},   {"position"},    {"token"},
                        {"masked"},    {"received"}, {"anchor"}, {"anchors_from"}};
    out.json         = {{"metric", "temporal"}, {"recordings", Json::array()}};

    size_t     n_positions = 0;
    const auto measure     = [&](const Recording & recording) {
        Measured one;
        n_positions              = std::max(n_positions, recording.n_positions());
        one.layers               = choose_layers(recording, params.layers);
        const AnchorRule  rule   = resolve_rule(asked, recording.attention() == AttentionKind::causal);
        const Drift       drift  = drift_of(recording, one.layers, rule, params);
        figure::HeatMap   map    = map_of(recording, drift, rule);
        const size_t      number = out.json["recordings"].size();
        const std::string model  = params.labels.empty() ? recording.model() : params.labels.at(number);
        map.title                = model + ": " + base_name(recording.path()) + ", " + layers_text(one.layers);
        out.figure.charts.emplace_back(std::move(map));
        Json json = {{"recording", recording.path()},
                     {"model", model},
                     {"layers", one.layers},
                     {"rule", rule.text()},
                     {"steps", drift.steps}};
        add_rows(steps, recording, drift, several);
        for (size_t s = 0; s < drift.steps.size(); s++) {
            const Received &            A     = drift.received[s];
            const std::vector<size_t> & found = drift.anchors[s].positions;
            json["received"].push_back(numbers(A));
            json["largest_z"].push_back(numbers({largest_z(A)})[0]);
            json["anchors"].push_back(found);
            json["anchors_from"].push_back(drift.anchors[s].source());
            one.anchors_from.emplace_back(drift.anchors[s].source());
            for (size_t j = 0; j < A.size(); j++) {
                const bool anchor = std::binary_search(found.begin(), found.end(), j);
                out.data.rows.push_back({recording.path(), model, int64_t{drift.steps[s]}, static_cast<int64_t>(j),
                                         recording.pieces()[j],
                                         int64_t{is_masked(recording, drift.steps[s], j) ? 1 : 0}, A[j],
                                         int64_t{anchor ? 1 : 0}, drift.anchors[s].source()});
            }
        }
        const Course course     = course_of(drift);
        json["course"]          = course_json(course);
        one.detail["rule"]      = rule.text();
        const std::string where = one.layers.size() > 1 ? " (" + layers_text(one.layers) + ")" : std::string();
        if (rule.kind != AnchorRule::Kind::bos) { // which never moves
            out.conclusions.push_back(conclusion(
                    several ? concat(model, " (", base_name(recording.path()), ")") : model, course, rule, where));
        }
        out.json["recordings"].push_back(std::move(json));
        return one;
    };
    const std::vector<Measured> measured = measure_each(params, measure);
    note_anchors(out, measured, "anchor", [](const Measured & one) {
        return one.layers.size() == 1
                   ? "in any step"
                   : "in any step in the " + layers_text(one.layers) + "; single layers may have some (floating)";
    });
    out.tables       = {std::move(steps)};
    out.figure.title = "Received attention by step";
    out.figure.caption =
        "Mean over heads and query rows of each column of the pattern; " + rule_caption(asked, measured);
    out.figure.shared_scale = out.figure.charts.size() > 1;
    out.figure.width = std::clamp(8.0 * static_cast<double>(n_positions) + 180, 760.0, 1600.0); // room for tokens
    return out;
}

} // namespace buoy::analysis
