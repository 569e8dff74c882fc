#include "analysis/export.h"

#include "analysis/received.h"
#include "buoy/message.h"
#include "buoy/table.h"
#include "io/npz-writer.h"
#include "io/pending-file.h"
#include "observe/record-member.h"

#include <algorithm>
#include <limits>

namespace buoy::analysis {

namespace {

using Layers = std::vector<int32_t>;

int64_t extent(size_t n) { return static_cast<int64_t>(n); }

// [L, T], NaN where a position is no key
std::vector<float> padded(const std::vector<Received> & received, size_t n_positions) {
    std::vector<float> out(received.size() * n_positions, std::numeric_limits<float>::quiet_NaN());
    for (size_t l = 0; l < received.size(); l++) {
        for (size_t j = 0; j < received[l].size(); j++) {
            out[l * n_positions + j] = static_cast<float>(received[l][j]);
        }
    }
    return out;
}

void export_npz(const Recording & recording, const Layers & layers, const ExportParams & params) {
    const size_t          T = recording.n_positions(), S = recording.n_steps();
    const size_t          n_steps = recording.steps().size();
    std::vector<float>    received;
    std::vector<Received> step; // [layer]
    for_each_received(recording, layers, std::nullopt, "export", [&](int32_t, size_t, const Received & A) {
        step.push_back(A);
        if (step.size() == layers.size()) {
            const std::vector<float> part = padded(step, T);
            received.insert(received.end(), part.begin(), part.end());
            step.clear();
        }
    });
    std::vector<int32_t> tokens;
    for (size_t s = 0; s <= S; s++) {
        for (size_t j = 0; j < T; j++) {
            tokens.push_back(recording.token(s, j));
        }
    }
    if (received.size() != n_steps * layers.size() * T) {
        fail(printable(recording.path()),
             ": some steps have no query rows (`record.rows`), so they have no received attention");
    }
    PendingFile file(params.out, params.force);
    NpzWriter   npz(file);
    npz.add("received.npy", array_member({extent(n_steps), extent(layers.size()), extent(T)}, received));
    npz.add("finished.npy",
            array_member({extent(layers.size()), extent(T)},
                         padded(received_of_rows(recording, layers, latest_rows(recording), "export"), T)));
    npz.add("steps.npy", array_member({extent(n_steps)}, recording.steps()));
    npz.add("layers.npy", array_member({extent(layers.size())}, layers));
    npz.add("tokens.npy", array_member({extent(S + 1), extent(T)}, tokens));
    npz.add("unmask_step.npy", array_member({extent(T)}, recording.unmask_step()));
    npz.add("confidence.npy", array_member({extent(S), extent(T)}, recording.confidence()));
    npz.add("meta.json", meta_of(recording).dump());
    npz.finish();
    file.commit();
}

void export_csv(const Recording & recording, const Layers & layers, const ExportParams & params) {
    PendingFile file(params.out, params.force);
    bool        first = true;
    for_each_received(recording, layers, std::nullopt, "export", [&](int32_t step, size_t l, const Received & A) {
        Table part{"", {{"step"}, {"layer"}, {"position"}, {"token"}, {"piece"}, {"received"}}, {}};
        for (size_t j = 0; j < A.size(); j++) {
            part.rows.push_back({int64_t{step}, int64_t{layers[l]}, static_cast<int64_t>(j),
                                 int64_t{recording.token(static_cast<size_t>(step), j)}, recording.pieces()[j], A[j]});
        }
        std::string text = to_csv(part);
        text             = first ? text : text.substr(text.find('\n') + 1);
        first            = false;
        file.write(text.data(), text.size());
    });
    file.commit();
}

void export_bertviz(const Recording & recording, const Layers & layers, const ExportParams & params) {
    recording.need_reduce({TapReduce::none, TapReduce::heads}, "export as bertviz");
    PendingFile file(params.out, params.force);
    const auto  put = [&](const std::string & text) { file.write(text.data(), text.size()); };
    put("{\"tokens\": " + nlohmann::json(recording.pieces()).dump() + ", \"layers\": " + nlohmann::json(layers).dump() +
        ", \"attention\": [");
    for (size_t l = 0; l < layers.size(); l++) {
        const Array  pattern = finished_pattern(recording, layers[l]);
        const size_t H = pattern.shape[0], T = pattern.shape[1];
        put(l == 0 ? "[" : ",[");
        for (size_t h = 0; h < H; h++) {
            put(h == 0 ? "[" : ",[");
            for (size_t i = 0; i < T; i++) {
                const auto begin = pattern.values.begin() + static_cast<std::ptrdiff_t>((h * T + i) * T);
                put((i == 0 ? "" : ",") +
                    nlohmann::json(std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(T))).dump());
            }
            put("]");
        }
        put("]");
    }
    put("]}\n");
    file.commit();
}

} // namespace

Array finished_pattern(const Recording & recording, int32_t layer) {
    const size_t T = recording.n_positions();
    Array        out;
    for (const StepRows & one : latest_rows(recording)) {
        const Array                  pattern = recording.read(Tap::pattern, one.step, layer);
        const std::vector<int32_t> & rows    = recording.rows(one.step);
        const size_t                 H       = recording.reduce() == TapReduce::heads ? 1 : pattern.shape[0];
        const size_t                 K       = pattern.shape.back();
        if (out.values.empty()) {
            out = {{H, T, T}, std::vector<float>(H * T * T)};
        } else if (out.shape[0] != H) {
            fail(printable(recording.path()), ": layer ", layer, " has ", out.shape[0], " heads and later ", H);
        }
        for (size_t h = 0; h < H; h++) {
            for (size_t i : one.rows) {
                const float * from = pattern.values.data() + (h * rows.size() + i) * K;
                std::copy(from, from + K, out.values.data() + (h * T + static_cast<size_t>(rows[i])) * T);
            }
        }
    }
    return out;
}

void export_recording(const ExportParams & params) {
    const Recording recording = Recording::open(params.path);
    const Layers    layers    = choose_layers(recording, params.layers);
    switch (params.format) {
        case ExportFormat::neuir: export_neuir(recording, layers, params); break;
        case ExportFormat::npz: export_npz(recording, layers, params); break;
        case ExportFormat::csv: export_csv(recording, layers, params); break;
        case ExportFormat::bertviz: export_bertviz(recording, layers, params); break;
    }
}

} // namespace buoy::analysis
