// Recordings, and everything that llama-attention does with them. The input is the members of an archive, which is put together here: so
// damage reaches arrays and meta.json, not only checksums.

#include "mutate.h"
#include "target.h"

#include "buoy/export.h"
#include "buoy/figure.h"
#include "buoy/printable.h"
#include "buoy/recording.h"
#include "buoy/report.h"
#include "buoy/study.h"
#include "io/npz-reader.h"
#include "support/hf-dir.h"
#include "support/recording.h"
#include "support/zip-bytes.h"

namespace buoy::fuzz {

namespace {

std::string seed_of(TapReduce reduce, std::vector<Tap> taps, RecordType type) {
    RandomModel model;
    model.n_layer = 2;
    model.n_embd  = 16;
    model.n_head  = 2;
    test::RecordingBench bench(model);
    bench.params.n_predict    = 3;
    bench.params.block_length = 3;
    RecordParams params       = test::record_params(scratch_dir() + "/seed.npz", reduce, type);
    params.taps               = std::move(taps);
    params.force              = true;
    params.regions            = {{"gold", {{0, 2}}}, {"rest", {{2, 5}}}};
    bench.record(params);

    constexpr size_t  local_header = 30; // the recorder stores its members, without further fields
    const std::string bytes        = test::read_file(params.path);
    const NpzReader   file         = NpzReader::open(params.path);
    Parts             parts;
    for (const NpzMember & member : file.members()) {
        const size_t at = static_cast<size_t>(member.offset) + local_header + member.name.size();
        parts.emplace_back(member.name, bytes.substr(at, static_cast<size_t>(member.size)));
    }
    return bundled(parts);
}

std::vector<std::string> seeds() {
    return {seed_of(TapReduce::none, {Tap::pattern, Tap::rot_q, Tap::rot_k}, RecordType::f32),
            seed_of(TapReduce::heads, {Tap::pattern}, RecordType::f16),
            seed_of(TapReduce::regions, {Tap::pattern}, RecordType::f32)};
}

void demand_printable(const std::string & text) {
    demand(printable_lines(text) == text, "what is printed holds no control characters");
}

void try_metric(const analysis::StudyMetric & metric, const std::string & path) {
    analysis::StudyParams params;
    params.paths                      = std::vector<std::string>(metric.n_recordings == 2 ? 2 : 1, path);
    const analysis::StudyResult found = study(metric.name, params);
    for (const analysis::Table & table : found.tables) {
        demand_printable(to_text(table));
    }
    demand_printable(to_csv(found.data));
    demand_printable(found.json);
    render_svg(found.figure);
}

void run(const std::string & input) {
    std::vector<test::ZipMember> members;
    for (const auto & [name, bytes] : unbundled(input)) {
        members.push_back({name.substr(0, 200), bytes, {}});
    }
    const std::string path = scratch_file("run.npz", test::zip_bytes(members));
    // each command by itself: one that this recording is not for says so
    answered([&] { demand_printable(analysis::recording_text(path)); });
    answered([&] { demand_printable(analysis::recording_json(path)); });
    analysis::Recording::open(path);
    for (const analysis::StudyMetric & metric : analysis::study_metrics()) {
        answered([&] { try_metric(metric, path); });
    }
    using analysis::ExportFormat;
    for (const ExportFormat format :
         {ExportFormat::neuir, ExportFormat::npz, ExportFormat::csv, ExportFormat::bertviz}) {
        answered([&] { analysis::export_recording({path, format, scratch_dir() + "/out", {}, true}); });
    }
    answered([&] {
        report::ReportParams params;
        params.paths = {path};
        params.out   = scratch_dir() + "/out.html";
        params.force = true;
        write_report(params);
    });
}

void mutate(std::string & input, Random & random) {
    Parts parts = unbundled(input);
    if (parts.empty()) {
        mutate_bytes(input, random);
        return;
    }
    auto & [name, bytes] = parts[below(random, parts.size())];
    switch (below(random, 8)) {
        case 0: parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(below(random, parts.size()))); break;
        case 1: name = parts[below(random, parts.size())].first; break;
        case 2: mutate_bytes(bytes, random); break;
        case 3: bytes = std::string(bytes.size(), static_cast<char>(random())); break;
        default:
            for (auto & [each, text] : parts) {
                if (each.starts_with("meta.json")) {
                    mutate_json(text, random);
                }
            }
    }
    input = bundled(parts);
}

} // namespace

Target recording_target() { return {"recording", seeds, run, mutate}; }

} // namespace buoy::fuzz
