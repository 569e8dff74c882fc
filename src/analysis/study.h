#pragma once

#include "analysis/anchors.h"
#include "analysis/recording.h"
#include "analysis/statistics.h"
#include "buoy/study.h"

#include <functional>
#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace buoy::analysis {

using Json = nlohmann::ordered_json;

// The result of a metric in every form in which it is shown.
struct Findings {
    std::vector<Table> tables; // to be read
    Table              data;   // for CSV
    Json               json;
    figure::Figure     figure;
    std::vector<std::string>
        conclusions;                // what the numbers come to, a sentence or two for each model, computed from them
    std::vector<std::string> notes; // what a reader must know, one line each
};

// One number of a metric: its name in JSON and CSV, and how it is shown.
struct Quantity {
    std::string name;
    std::string label;
    int         digits  = 3;
    bool        percent = false; // a fraction that is shown in percent
};

// What a metric says of one recording: its quantities by layer, and overall.
struct Measured {
    std::string                      path;
    std::string                      model;
    std::vector<int32_t>             layers;
    std::vector<std::vector<double>> by_layer; // [quantity][layer]
    std::vector<double>              overall;  // [quantity]
    std::vector<std::string> anchors_from; // of each layer: none, rule, fallback; empty where it is about no anchors
    Json                     detail = Json::object(); // merged into the recording's JSON
};

struct Metric {
    std::string           name;
    std::vector<Quantity> quantities;
    std::vector<Quantity> overall;    // those of Measured::overall
    std::string           title = {}; // of the tables; may be empty
};

// Calls the function for each recording in turn; only one is open at a time. Sets path and model.
template <typename Measure> std::vector<Measured> measure_each(const StudyParams & params, const Measure & measure) {
    std::vector<Measured> out;
    for (size_t i = 0; i < params.paths.size(); i++) {
        const Recording recording = Recording::open(params.paths[i]);
        Measured        measured  = measure(recording);
        measured.path             = params.paths[i];
        measured.model            = params.labels.empty() ? recording.model() : params.labels.at(i);
        out.push_back(std::move(measured));
    }
    return out;
}

// The measured recordings of each model, in the order of their first appearance.
struct Group {
    std::string                   model;
    std::vector<const Measured *> measured;
    std::vector<int32_t>          layers; // of all of them

    Spread              layer_spread(size_t quantity, int32_t layer) const;
    std::vector<double> overall(size_t quantity) const; // one per recording
};

std::vector<Group> group_by_model(const std::vector<Measured> & measured);

// Tables, CSV and JSON of a metric by layer and overall; charts are the caller's.
Findings report(const Metric & metric, const std::vector<Measured> & measured, const StudyParams & params);

// One quantity by layer, a line with a band (mean ± deviation) for each model.
figure::LineChart layer_chart(const Quantity & quantity, size_t index, const std::vector<Group> & groups);

// " (mean of 20 recordings)"; empty for one.
std::string recordings_text(const Group & group);

// What bands mean, for a caption; empty where no model has several recordings.
std::string band_text(const std::vector<Measured> & measured);

// A layer's anchors were found once more.
void add_source(std::string & anchors_from, const Anchors & found);

// Says of each recording, once, that its anchors are a fallback, or that there are none.
void note_anchors(Findings & findings, const std::vector<Measured> & measured, const char * what = "anchor",
                  const std::function<std::string(const Measured &)> & where = {});

// The end of a caption: by which rule anchors are found, and what it fell back to.
std::string rule_caption(const AnchorRule & asked, const std::vector<Measured> & measured);

// "12.3 %" of a fraction, "0.95"; "–" where there is no number. As tables print them.
std::string percent_text(double fraction, int digits = 1);
std::string number_text(double value, int digits);

// NaN is null, -0 is 0.
Json numbers(const std::vector<double> & values);

} // namespace buoy::analysis
