#include "buoy/report.h"

#include "analysis/recording.h"
#include "buoy/message.h"
#include "io/pending-file.h"
#include "report/page.h"

#include <algorithm>
#include <filesystem>

namespace buoy::report {

namespace {

using analysis::Recording;

// Two recordings of one model are told apart by their files.
std::vector<std::string> labels_of(const ReportParams & params, const std::vector<Recording> & recordings) {
    if (!params.labels.empty()) {
        if (params.labels.size() != recordings.size()) {
            fail("`labels`: ", params.labels.size(), " labels for ", recordings.size(), " recordings");
        }
        return params.labels;
    }
    std::vector<std::string> labels;
    for (const Recording & recording : recordings) {
        const bool alone = std::count_if(recordings.begin(), recordings.end(), [&](const Recording & other) {
                               return other.model() == recording.model();
                           }) == 1;
        labels.push_back(recording.model() +
                         (alone ? "" : " · " + std::filesystem::path(recording.path()).stem().string()));
    }
    return labels;
}

// Of the bytes there are, each gets half, and what the other does not need.
std::vector<uint64_t> shares(const std::vector<Recording> & recordings, uint64_t max_size) {
    if (recordings.size() == 1) {
        return {max_size};
    }
    const uint64_t first  = std::min(payload_size(recordings[0]), max_size / 2);
    const uint64_t second = std::min(payload_size(recordings[1]), max_size - first);
    return {max_size - second, std::max<uint64_t>(second, 1)};
}

} // namespace

std::vector<std::string> write_report(const ReportParams & params) {
    if (params.paths.empty() || params.paths.size() > 2) {
        fail("report: ", params.paths.size(), " recordings, expected one or two");
    }
    for (const std::string & path : params.paths) {
        std::error_code not_there;
        if (std::filesystem::equivalent(path, params.out, not_there)) {
            fail(printable(params.out), ": the report would replace a recording that it is made from");
        }
    }
    if (std::filesystem::path(params.out).extension() == ".npz") {
        fail(printable(params.out), ": a report can't be written under a recording's name");
    }
    std::vector<Recording> recordings;
    for (const std::string & path : params.paths) {
        recordings.push_back(Recording::open(path));
    }
    PendingFile                    file(params.out, params.force);
    const std::vector<std::string> labels  = labels_of(params, recordings);
    const std::vector<uint64_t>    budgets = shares(recordings, params.max_size);
    std::vector<Payload>           payloads;
    std::vector<std::string>       notes;
    std::string                    title;
    for (size_t i = 0; i < recordings.size(); i++) {
        payloads.push_back(make_payload(recordings[i], labels[i], budgets[i]));
        for (const std::string & sentence : payloads[i].reduced) {
            notes.push_back(labels[i] + ": " + sentence);
        }
        title += (i > 0 ? " and " : "") + labels[i];
    }
    std::vector<MetricFigure> figures = metric_figures(params.paths, labels);
    for (MetricFigure & figure : figures) {
        figure.reason = params.wording ? params.wording(figure.reason) : figure.reason;
    }
    const std::string page = make_page(title, payloads, figures);
    file.write(page.data(), page.size());
    file.commit();
    return notes;
}

} // namespace buoy::report
