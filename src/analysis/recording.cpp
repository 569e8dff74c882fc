#include "analysis/recording.h"

#include "analysis/labels.h"
#include "analysis/meta-reader.h"
#include "buoy/message.h"
#include "buoy/names.h"
#include "observe/record-member.h"

#include <algorithm>
#include <array>
#include <functional>

namespace buoy::analysis {

namespace {

constexpr int format_version = 1;

AttentionKind attention_of(const MetaReader & meta) {
    const std::string name = meta.text({"attention"});
    for (AttentionKind kind : {AttentionKind::causal, AttentionKind::full, AttentionKind::block_causal}) {
        if (name == attention_kind_name(kind)) {
            return kind;
        }
    }
    fail(meta.where(), ": attention ", in_quotes(name), " is unknown");
}

TapReduce reduce_of(const MetaReader & meta) {
    const std::string name = meta.text({"recorded", "reduce"});
    for (const auto & [known, reduce] : reduce_names) {
        if (name == known) {
            return reduce;
        }
    }
    fail(meta.where(), ": recorded.reduce ", in_quotes(name), " is unknown");
}

constexpr size_t n_taps_max = 16; // there are six

// Indices of a list in meta.json: ascending, below count.
std::vector<int32_t> ascending(const MetaReader & meta, std::initializer_list<const char *> keys, size_t count) {
    std::vector<int32_t> list = meta.integers(keys);
    for (size_t i = 0; i < list.size(); i++) {
        if (list[i] < (i == 0 ? 0 : list[i - 1] + 1) || static_cast<size_t>(list[i]) >= count) {
            fail(meta.where(), ": ", meta.name(keys), " has ", list[i], ", expected ascending numbers below ", count);
        }
    }
    return list;
}

// accepts: is the shape one that meta.json lets expect?
std::vector<int32_t> read_int32(const NpzReader & file, const std::string & name,
                                const std::function<bool(const std::vector<int64_t> & shape)> & accepts) {
    NpyHeader                  header;
    const std::vector<int64_t> values = file.read_ints(file.get(name), header, [&](const NpyHeader & found) {
        if (!accepts(found.shape)) {
            fail(printable(file.path()), ": ", name, ": the shape does not match meta.json");
        }
    });
    std::vector<int32_t>       out;
    out.reserve(values.size());
    for (int64_t value : values) {
        out.push_back(static_cast<int32_t>(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX)));
    }
    return out;
}

} // namespace

Recording Recording::open(const std::string & path) {
    Recording recording(std::make_shared<Source>(Source{NpzReader::open(path), {}}));
    recording.read_meta();
    recording.read_arrays();
    return recording;
}

const std::string & Recording::path() const { return source_->file.path(); }

std::string Recording::meta_json() const { return source_->meta.dump(); }

void Recording::read_meta() {
    const std::string file   = printable(path());
    const NpzMember * member = source_->file.find("meta.json");
    if (member == nullptr) {
        fail(file, ": not a recording: there is no meta.json in it");
    }
    source_->meta = read_meta_json(source_->file, *member);
    const MetaReader meta(source_->meta, file + ": meta.json");
    if (meta.text({"format"}) != "buoy-recording" || meta.integer({"format_version"}) != format_version) {
        fail(file, ": not a recording of format version ", format_version);
    }
    model_ = meta.text({"model", "name"});
    if (model_.empty()) {
        model_ = base_name(meta.text({"model", "path"}));
    }
    if (meta.has({"model", "mode"})) { // the modes of one file are two models
        model_ += ":" + meta.text({"model", "mode"});
    }
    attention_    = attention_of(meta);
    block_length_ = meta.has({"model", "block_length"}) ? meta.integer({"model", "block_length"}) : 0;
    shift_        = meta.boolean({"model", "shift"}) || attention_ == AttentionKind::causal;
    mask_id_      = meta.integer({"model", "mask_id"});
    n_prompt_     = meta.count({"n_prompt"});
    n_positions_  = meta.count({"n_positions"});
    n_steps_      = meta.count({"n_steps"});
    pieces_       = meta.texts({"pieces"});
    if (n_positions_ == 0 || pieces_.size() != n_positions_ || n_prompt_ > n_positions_) {
        fail(meta.where(), ": ", n_positions_, " positions, ", n_prompt_, " of the prompt, ", pieces_.size(),
             " pieces do not fit together");
    }
    if (meta.has({"special_ids"})) {
        special_ids_ = meta.integers({"special_ids"});
        std::sort(special_ids_.begin(), special_ids_.end());
    }
    taps_ = meta.texts({"recorded", "taps"});
    if (taps_.size() > n_taps_max) {
        fail(meta.where(), ": recorded.taps has ", taps_.size(), " names, expected at most ", n_taps_max);
    }
    if (has(Tap::pattern)) {
        reduce_ = reduce_of(meta);
    }
    layers_  = ascending(meta, {"recorded", "layers"}, 100000);
    steps_   = ascending(meta, {"recorded", "steps"}, n_steps_);
    regions_ = meta.regions(n_positions_);
    if (steps_.empty() || layers_.empty()) {
        fail(file, ": the recording is empty: it has ", steps_.size(), " steps and ", layers_.size(), " layers");
    }
}

void Recording::read_arrays() {
    const auto T = static_cast<int64_t>(n_positions_);
    const auto S = static_cast<int64_t>(n_steps_);
    tokens_      = read_int32(source_->file, "tokens.npy", [=](const std::vector<int64_t> & shape) {
        return shape == std::vector<int64_t>{S + 1, T};
    });
    for (int32_t step : steps_) {
        const std::string    name = rows_name(step);
        std::vector<int32_t> rows = read_int32(source_->file, name, [=](const std::vector<int64_t> & shape) {
            return shape.size() == 1 && shape[0] <= T;
        });
        for (size_t i = 0; i < rows.size(); i++) {
            if (rows[i] < (i == 0 ? 0 : rows[i - 1] + 1) || rows[i] >= T) {
                fail(printable(path()), ": ", name, ": position ", rows[i], ", expected ascending positions below ", T);
            }
        }
        rows_.push_back(std::move(rows));
    }
}

int32_t Recording::token(size_t step, size_t position) const { return tokens_.at(step * n_positions_ + position); }

const Region * Recording::region(const std::string & name) const {
    for (const Region & region : regions_) {
        if (region.name == name) {
            return &region;
        }
    }
    return nullptr;
}

std::vector<int32_t> Recording::unmask_step() const {
    const auto T = static_cast<int64_t>(n_positions_);
    return read_int32(source_->file, "unmask_step.npy",
                      [=](const std::vector<int64_t> & shape) { return shape == std::vector<int64_t>{T}; });
}

std::vector<float> Recording::confidence() const {
    NpyHeader header;
    return source_->file.read_floats(source_->file.get("confidence.npy"), header, [&](const NpyHeader & found) {
        if (found.n_elements() != n_steps_ * n_positions_) {
            fail(printable(path()), ": confidence.npy: the shape does not match meta.json");
        }
    });
}

const std::vector<int32_t> & Recording::rows(int32_t step) const {
    const auto at = std::lower_bound(steps_.begin(), steps_.end(), step);
    if (at == steps_.end() || *at != step) {
        fail(printable(path()), ": step ", step, " is not in the recording, which has ", steps_.size(), " steps from ",
             steps_.front(), " to ", steps_.back());
    }
    return rows_[static_cast<size_t>(at - steps_.begin())];
}

bool Recording::has(Tap tap) const { return std::find(taps_.begin(), taps_.end(), tap_folder(tap)) != taps_.end(); }

void Recording::check_shape(Tap tap, int32_t step, const std::vector<size_t> & s, const std::string & name) const {
    const size_t Q       = rows(step).size();
    const size_t T       = n_positions_;
    const auto   is_rank = [&](size_t n) { return s.size() == n && std::find(s.begin(), s.end(), 0u) == s.end(); };
    bool         fits    = false;
    switch (tap) {
        case Tap::pattern:
            switch (reduce_) {
                case TapReduce::none: fits = is_rank(3) && s[1] == Q && s[2] <= T; break;
                case TapReduce::heads: fits = is_rank(2) && s[0] == Q && s[1] <= T; break;
                case TapReduce::received: fits = is_rank(2) && s[1] <= T; break;
                case TapReduce::regions: fits = is_rank(2) && s[0] == regions_.size() && s[1] == s[0]; break;
            }
            break;
        case Tap::attn_scores: fits = is_rank(3) && s[1] == Q && s[2] <= T; break;
        case Tap::rot_q: fits = is_rank(3) && s[1] == Q; break;
        case Tap::rot_k: fits = is_rank(3) && s[1] <= T; break;
        case Tap::v: fits = is_rank(2) && s[1] <= T; break;
        case Tap::resid_post: fits = is_rank(2) && s[0] == Q; break;
    }
    if (!fits) {
        std::string shape;
        for (size_t extent : s) {
            shape += (shape.empty() ? "" : ", ") + std::to_string(extent);
        }
        fail(printable(path()), ": ", name, ": shape [", shape, "] does not fit ", Q, " query rows of ", T,
             " positions");
    }
}

Array Recording::read(Tap tap, int32_t step, int32_t layer) const {
    const std::string name = tap_member_name(tap, step, layer);
    NpyHeader         header;
    Array             array;
    array.values = source_->file.read_floats(source_->file.get(name), header, [&](const NpyHeader & found) {
        array.shape.assign(found.shape.begin(), found.shape.end());
        check_shape(tap, step, array.shape, name);
    });
    return array;
}

void Recording::need(Tap tap, const std::string & metric) const {
    if (!has(tap)) {
        std::string found;
        for (const std::string & folder : taps_) {
            found += (found.empty() ? "" : ", ") + folder;
        }
        fail(printable(path()), ": ", metric, " needs the tap ", name_of(tap_names, tap), ", the recording has ",
             printable(found), "; record with `record.taps` and ", name_of(tap_names, tap), " in its list");
    }
}

void Recording::need_reduce(std::initializer_list<TapReduce> any, const std::string & metric) const {
    need(Tap::pattern, metric);
    if (std::find(any.begin(), any.end(), reduce_) != any.end()) {
        return;
    }
    std::string names;
    for (TapReduce reduce : any) {
        names += (names.empty() ? "" : " or ") + std::string(name_of(reduce_names, reduce));
    }
    fail(printable(path()), ": ", metric, " needs `record.reduce` ", names, ", but these patterns were recorded with ",
         name_of(reduce_names, reduce_));
}

} // namespace buoy::analysis
