#include "eval/figures.h"
#include "buoy/message.h"

#include "buoy/error.h"
#include "buoy/parse.h"
#include "io/pending-file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

namespace buoy {

namespace {

const std::string bands = "Bands: 95 % interval of the mean (bootstrap over questions).";

bool begins_with(const std::string & text, const std::string & part) { return text.compare(0, part.size(), part) == 0; }

// The number of "noise=3".
std::optional<double> value_of(const std::string & condition, const std::string & name) {
    return begins_with(condition, name + "=") ? parse_number<double>(condition.substr(name.size() + 1)) : std::nullopt;
}

figure::Figure titled(const std::string & title, const std::string & subtitle, const std::string & caption) {
    figure::Figure out;
    out.title    = title;
    out.subtitle = subtitle;
    out.caption  = caption;
    return out;
}

// Accuracy over the number of a condition, a line for each model.
std::optional<figure::Figure> accuracy_over(const QaSummary & summary, const std::string & name,
                                            const std::string & title, const std::string & x_label) {
    figure::LineChart chart;
    chart.x = {x_label, false, std::nullopt, std::nullopt};
    chart.y = {"Acc", true, 0.0, 1.0};
    for (const std::string & model : summary.models) {
        figure::Series series;
        series.name = model;
        for (const QaCell & cell : summary.cells) {
            const auto x = value_of(cell.condition, name);
            if (x && cell.model == model) {
                series.x.push_back(*x);
                series.y.push_back(cell.acc.mean);
                series.low.push_back(cell.acc.low);
                series.high.push_back(cell.acc.high);
            }
        }
        if (series.x.size() > 1) {
            chart.series.push_back(std::move(series));
        }
    }
    if (chart.series.empty()) {
        return std::nullopt;
    }
    figure::Figure out = titled(title, summary.dataset, bands);
    out.charts         = {chart};
    return out;
}

// The other conditions side by side.
std::optional<figure::Figure> accuracy_by_condition(const QaSummary & summary) {
    figure::BarChart chart;
    chart.y = {"Acc", true, 0.0, 1.0};
    for (const std::string & condition : summary.conditions) {
        if (!value_of(condition, "gold-position") && !value_of(condition, "noise")) {
            chart.groups.push_back(condition);
        }
    }
    for (const std::string & model : summary.models) {
        figure::BarSeries & series = chart.series.emplace_back();
        series.name                = model;
        for (const std::string & condition : chart.groups) {
            const auto cell  = std::find_if(summary.cells.begin(), summary.cells.end(), [&](const QaCell & c) {
                return c.model == model && c.condition == condition;
            });
            const bool there = cell != summary.cells.end();
            series.values.push_back(there ? cell->acc.mean : std::nan(""));
            series.low.push_back(there ? cell->acc.low : std::nan(""));
            series.high.push_back(there ? cell->acc.high : std::nan(""));
        }
    }
    if (chart.groups.size() < 2) {
        return std::nullopt;
    }
    figure::Figure out = titled("Accuracy by condition", summary.dataset,
                                "Error bars: 95 % interval of the mean (bootstrap over questions).");
    out.charts         = {chart};
    return out;
}

// The cells of the condition that shows attention best: the most passages.
std::vector<const QaAttention *> base_cells(const std::vector<QaAttention> & attention) {
    std::string base;
    double      most = 0;
    for (const QaAttention & cell : attention) {
        const double n = value_of(cell.condition, "passages").value_or(0);
        if (n > most) {
            most = n;
            base = cell.condition;
        }
    }
    std::vector<const QaAttention *> out;
    for (const QaAttention & cell : attention) {
        if (cell.condition == base) {
            out.push_back(&cell);
        }
    }
    return out;
}

std::optional<figure::Figure> line_by_layer(const std::vector<const QaAttention *> & cells,
                                            std::vector<QaMean> QaAttention::*quantity, double unit,
                                            const figure::Figure & frame, const figure::Axis & y) {
    figure::LineChart chart;
    chart.x = {"layer", false, std::nullopt, std::nullopt};
    chart.y = y;
    for (const QaAttention * cell : cells) {
        figure::Series series;
        series.name = cell->model;
        for (const QaMean & mean : cell->*quantity) {
            series.y.push_back(unit * mean.mean);
            series.low.push_back(unit * mean.low);
            series.high.push_back(unit * mean.high);
        }
        if (!series.y.empty()) {
            chart.series.push_back(std::move(series));
        }
    }
    if (chart.series.empty()) {
        return std::nullopt;
    }
    figure::Figure out = frame;
    out.charts         = {chart};
    return out;
}

figure::HeatMap map_of(const std::string & title, const std::vector<std::vector<double>> & values) {
    figure::HeatMap map;
    map.title   = title;
    map.rows    = values.size();
    map.columns = values.empty() ? 0 : values[0].size();
    for (const std::vector<double> & row : values) {
        map.values.insert(map.values.end(), row.begin(), row.end());
    }
    return map;
}

std::optional<figure::Figure> maps_of(const std::vector<figure::HeatMap> & maps, figure::Figure frame) {
    if (maps.empty()) {
        return std::nullopt;
    }
    frame.charts.assign(maps.begin(), maps.end());
    frame.columns      = std::min<size_t>(maps.size(), 2);
    frame.shared_scale = maps.size() > 1;
    return frame;
}

std::vector<figure::HeatMap> retrieval_maps(const std::vector<const QaAttention *> & cells) {
    std::vector<figure::HeatMap> maps;
    for (const QaAttention * cell : cells) {
        if (!cell->retrieval.empty()) {
            figure::HeatMap & map = maps.emplace_back(
                map_of(cell->model + ", " + std::to_string(cell->n_retrieval) + " answers", cell->retrieval));
            map.x_label = "head";
            map.y_label = "layer";
            map.value   = {"retrieval score", false, 0.0, std::nullopt};
        }
    }
    return maps;
}

std::vector<figure::HeatMap> flow_maps(const std::vector<const QaAttention *> & cells) {
    std::vector<figure::HeatMap> maps;
    for (const QaAttention * cell : cells) {
        if (!cell->regions.empty()) {
            figure::HeatMap & map = maps.emplace_back(
                map_of(cell->model + ", mean of " + std::to_string(cell->n) + " answers", cell->rollout));
            map.x_label    = "from region (keys)";
            map.y_label    = "to region (queries)";
            map.value      = {"flow", true, 0.0, std::nullopt};
            map.square     = true;
            map.row_labels = map.column_labels = cell->regions;
        }
    }
    return maps;
}

void write_text(const std::string & path, const std::string & text) {
    PendingFile file(path, true, 0666, {});
    file.write(text.data(), text.size());
    file.commit();
}

} // namespace

std::vector<QaFigure> qa_figures(const QaSummary & summary, const std::vector<QaAttention> & attention) {
    std::vector<QaFigure> out;
    const auto            add = [&](const char * name, std::optional<figure::Figure> figure) {
        if (figure) {
            out.push_back({name, std::move(*figure)});
        }
    };
    add("gold-position", accuracy_over(summary, "gold-position", "Accuracy by position of the gold passage",
                                       "position of the gold passage"));
    add("noise",
        accuracy_over(summary, "noise", "Accuracy by number of noise passages", "passages of other questions"));
    add("conditions", accuracy_by_condition(summary));
    const std::vector<const QaAttention *> cells = base_cells(attention);
    if (cells.empty()) {
        return out;
    }
    const std::string subtitle = summary.dataset + ", " + cells[0]->condition;
    add("gold-by-layer",
        line_by_layer(cells, &QaAttention::gold, 1,
                      titled("Attention on the gold passage", subtitle,
                             "Mean over heads and over the rows that write the answer's tokens. " + bands),
                      {"attention on gold", true, 0.0, std::nullopt}));
    add("absorption-by-layer",
        line_by_layer(cells, &QaAttention::absorption, 0.01,
                      titled("Absorption by layer", subtitle,
                             "Share of all attention that anchors receive in the finished sequence; anchors by rule "
                             "std:3, none where no column exceeds it. " +
                                 bands),
                      {"attention on anchors", true, 0.0, std::nullopt}));
    add("retrieval-heads",
        maps_of(retrieval_maps(cells),
                titled("Retrieval heads", subtitle,
                       "How much of the right answer each head copies from the gold passage; answers with a ROUGE-1 "
                       "recall above 50 %.")));
    add("rollout", maps_of(flow_maps(cells), titled("Flow between regions", subtitle,
                                                    "Attention rollout over regions, mean over questions.")));
    return out;
}

void make_figure_directory(const std::string & directory) {
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) {
        fail("`figures`: ", printable(directory), " can't be made: ", error.message());
    }
}

void write_qa_figures(const std::string & directory, const std::vector<QaFigure> & figures) {
    make_figure_directory(directory);
    for (const QaFigure & one : figures) {
        const std::string base = directory + "/" + one.name;
        write_text(base + ".svg", figure::render_svg(one.figure));
        write_text(base + ".png", figure::render_png(one.figure));
    }
}

} // namespace buoy
