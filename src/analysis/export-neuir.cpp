#include "analysis/export.h"
#include "analysis/pickle.h"
#include "analysis/qk-maps.h"
#include "analysis/received.h"
#include "analysis/retrieval-score.h"
#include "analysis/token-class.h"
#include "buoy/message.h"
#include "buoy/utf8.h"
#include "io/npy.h"
#include "io/npz-writer.h"
#include "io/pending-file.h"
#include "observe/record-member.h"

#include <algorithm>
#include <numeric>

#include <utf8proc.h>

namespace buoy::analysis {

namespace {

using Layers = std::vector<int32_t>;

std::vector<int64_t> shape_of(const Array & array) { return {array.shape.begin(), array.shape.end()}; }

std::string layer_name(int32_t layer, const char * what) { return concat("layer_", layer, "_", what, ".npy"); }

// A text as numpy keeps a str: code points of 4 bytes.
std::string text_member(const std::string & text) {
    const std::string utf8 = utf8_repair(text);
    std::string       out;
    const auto *      at   = reinterpret_cast<const utf8proc_uint8_t *>(utf8.data());
    auto              left = static_cast<utf8proc_ssize_t>(utf8.size());
    while (left > 0) {
        utf8proc_int32_t       code   = 0;
        const utf8proc_ssize_t length = utf8proc_iterate(at, left, &code);
        for (int shift = 0; shift < 32; shift += 8) {
            out += static_cast<char>(code >> shift & 0xff);
        }
        at += length;
        left -= length;
    }
    out.resize(std::max<size_t>(out.size(), 4)); // numpy has no str of length 0
    return npy_header_of(concat("<U", out.size() / 4), {}) + out;
}

std::string region_text(const Recording & recording, const std::string & name) {
    std::string text;
    for (size_t j : region_positions(recording, name)) {
        text += recording.pieces()[j];
    }
    return text;
}

// q by position, 0 for rows that were never computed.
Array finished_queries(const Recording & recording, int32_t layer) {
    const size_t T = recording.n_positions();
    Array        out;
    for (const StepRows & one : latest_rows(recording)) {
        const Array                  q    = recording.read(Tap::rot_q, one.step, layer);
        const std::vector<int32_t> & rows = recording.rows(one.step);
        const size_t                 H = q.shape[0], D = q.shape[2];
        if (out.values.empty()) {
            out = {{H, T, D}, std::vector<float>(H * T * D)};
        } else if (out.shape[0] != H || out.shape[2] != D) {
            fail(printable(recording.path()), ": q of layer ", layer, " changes its shape between steps");
        }
        for (size_t h = 0; h < H; h++) {
            for (size_t i : one.rows) {
                const float * from = q.values.data() + (h * rows.size() + i) * D;
                std::copy(from, from + D, out.values.data() + (h * T + static_cast<size_t>(rows[i])) * D);
            }
        }
    }
    return out;
}

// k as the last pass saw them, 0 for positions that were no key. Where only some heads were recorded, one for each of them, so that
// they still pair with q.
Array last_keys(const Recording & recording, int32_t layer) {
    const size_t        T = recording.n_positions();
    const Array         k = recording.read(Tap::rot_k, latest_rows(recording).back().step, layer);
    const size_t        K = k.shape[1], D = k.shape[2];
    std::vector<size_t> heads(k.shape[0]);
    std::iota(heads.begin(), heads.end(), size_t{0});
    if (meta_of(recording)["recorded"]["heads"] != "all") {
        heads = key_heads(recording, recorded_heads(recording), k.shape[0]);
    }
    const size_t H = heads.size();
    Array        out{{H, T, D}, std::vector<float>(H * T * D)};
    for (size_t h = 0; h < H; h++) {
        const float * from = k.values.data() + heads[h] * K * D;
        std::copy(from, from + K * D, out.values.data() + h * T * D);
    }
    return out;
}

// The list of steps: what each saw, and the patterns; rows that a step did not compute are as they were computed last.
void write_steps(const Recording & recording, const Layers & layers, const PickleWriter::Sink & sink) {
    const size_t       T = recording.n_positions();
    PickleWriter       pickle(sink);
    std::vector<Array> current(layers.size(), Array{{T, T}, std::vector<float>(T * T)});
    pickle.begin();
    pickle.begin_objects(recording.steps().size());
    for (int32_t step : recording.steps()) {
        const std::vector<int32_t> & rows   = recording.rows(step);
        size_t                       n_keys = 0;
        for (size_t l = 0; l < layers.size() && !rows.empty(); l++) {
            const Array  pattern = mean_over_heads(recording.read(Tap::pattern, step, layers[l]), recording.reduce());
            const size_t K       = pattern.shape[1];
            for (size_t i = 0; i < rows.size(); i++) {
                float * to = current[l].values.data() + static_cast<size_t>(rows[i]) * T;
                std::fill(to, to + T, 0.0f);
                std::copy_n(pattern.values.data() + i * K, K, to);
            }
            n_keys = std::max(n_keys, K);
        }
        std::vector<int32_t> sequence;
        for (size_t j = 0; j < n_keys; j++) {
            sequence.push_back(recording.token(static_cast<size_t>(step), j));
        }
        pickle.begin_dictionary();
        pickle.text("step");
        pickle.integer(step);
        pickle.text("sequence");
        pickle.array({n_keys}, sequence);
        for (size_t l = 0; l < layers.size(); l++) {
            std::vector<float> values;
            for (size_t i = 0; i < n_keys; i++) {
                const float * from = current[l].values.data() + i * T;
                values.insert(values.end(), from, from + n_keys);
            }
            pickle.text(concat("layer_", layers[l], "_attention_avg"));
            pickle.array({n_keys, n_keys}, values);
        }
        pickle.end_dictionary();
    }
    pickle.end_objects();
    pickle.end();
}

// An archive needs a member's size and checksum before its data, so it is made twice and never kept.
void add_steps(const Recording & recording, const Layers & layers, NpzWriter & npz) {
    const std::string header = npy_header_of("|O", {static_cast<int64_t>(recording.steps().size())});
    uint64_t          size   = header.size();
    uint32_t          crc    = crc32_of(header.data(), header.size());
    write_steps(recording, layers, [&](const void * data, size_t n) {
        size += n;
        crc = crc32_of(data, n, crc);
    });
    npz.begin("step_attention_data.npy", size, crc);
    npz.write(header.data(), header.size());
    write_steps(recording, layers, [&](const void * data, size_t n) { npz.write(data, n); });
}

} // namespace

void export_neuir(const Recording & recording, const Layers & layers, const ExportParams & params) {
    recording.need_reduce({TapReduce::none, TapReduce::heads}, "export as neuir");
    PendingFile file(params.out, params.force);
    NpzWriter   npz(file);
    for (int32_t layer : layers) {
        const Array pattern = finished_pattern(recording, layer);
        const Array mean    = mean_over_heads(pattern, TapReduce::none);
        npz.add(layer_name(layer, "full_attention"), array_member(shape_of(mean), mean.values));
        if (recording.reduce() == TapReduce::none) {
            npz.add(layer_name(layer, "full_attention_heads"), array_member(shape_of(pattern), pattern.values));
        }
        if (recording.has(Tap::rot_q)) {
            const Array q = finished_queries(recording, layer);
            npz.add(layer_name(layer, "query_states"), array_member(shape_of(q), q.values));
        }
        if (recording.has(Tap::rot_k)) {
            const Array k = last_keys(recording, layer);
            npz.add(layer_name(layer, "key_states"), array_member(shape_of(k), k.values));
        }
    }
    const std::vector<int32_t> written = recording.unmask_step();
    std::vector<int32_t>       answer;
    for (size_t j = 0; j < written.size(); j++) {
        if (written[j] >= 0) {
            answer.push_back(recording.token(recording.n_steps(), j));
        }
    }
    const auto n_answer = static_cast<int32_t>(answer.size());
    const auto n_input  = static_cast<int32_t>(recording.n_prompt());
    npz.add("input_length.npy", array_member({}, std::vector<int32_t>{n_input}));
    npz.add("num_generated_tokens.npy", array_member({}, std::vector<int32_t>{n_answer}));
    npz.add("answer_tokens.npy", array_member({n_answer}, answer));
    npz.add("question.npy", text_member(meta_of(recording).value("prompt", std::string())));
    npz.add("gold_answer.npy", text_member(region_text(recording, "gold")));
    add_steps(recording, layers, npz);
    npz.finish();
    file.commit();
}

} // namespace buoy::analysis
