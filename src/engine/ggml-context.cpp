#include "engine/ggml-context.h"

#include "base/split-work.h"
#include "buoy/message.h"
#include "engine/graph-splits.h"
#include "engine/pass-work.h"
#include "engine/request-check.h"

#include <algorithm>
#include <cmath>

namespace buoy {

namespace {

bool device_has_flash(ggml_backend_dev_t device, const LayerParams & p, const ContextParams & params) {
    ggml_context_ptr ctx{ggml_init({ggml_tensor_overhead() * 8, nullptr, true})};
    const auto       kv_type = [](KvType type) { return type == KvType::f32 ? GGML_TYPE_F16 : kv_ggml_type(type); };
    ggml_tensor *    q       = ggml_new_tensor_3d(ctx.get(), GGML_TYPE_F32, p.head_dim, 32, p.n_head);
    ggml_tensor *    k       = ggml_new_tensor_3d(ctx.get(), kv_type(params.type_k), p.head_dim, 256, p.n_head_kv);
    ggml_tensor *    v       = ggml_new_tensor_3d(ctx.get(), kv_type(params.type_v), p.head_dim, 256, p.n_head_kv);
    ggml_tensor *    mask    = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F16, 256, 32);
    return ggml_backend_dev_supports_op(device, ggml_flash_attn_ext(ctx.get(), q, k, v, mask, 1.0f, 0.0f, p.softcap));
}

std::vector<ggml_backend_dev_t> attention_devices(const LoadedModel & model) {
    std::vector<ggml_backend_dev_t> devices;
    for (int32_t il = 0; il < model.hparams().n_layer; il++) {
        devices.push_back(model.attention_device(il));
    }
    return devices;
}

int64_t pad_to(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

} // namespace

GgmlContext::GgmlContext(std::shared_ptr<const GgmlModel> model, const ContextParams & params)
    : model_(std::move(model)), loaded_(model_->loaded()), params_(params),
      store_(loaded_.hparams(), attention_devices(loaded_), params,
             choose_n_ctx(params, loaded_.hparams().n_ctx_train, loaded_.info().traits.block_length)),
      row_store_(loaded_.hparams(), attention_devices(loaded_), store_.n_ctx(), params.n_sequences),
      logit_store_(loaded_.hparams().n_vocab, params.n_sequences) {
    const HParams & hp      = loaded_.hparams();
    const auto &    devices = loaded_.placement().devices();
    for (ggml_backend_dev_t device : devices) {
        backends_.emplace_back(ggml_backend_dev_init(device, nullptr));
        if (!backends_.back()) {
            fail_runtime("device ", ggml_backend_dev_name(device), " could not be started");
        }
        auto * set_threads = reinterpret_cast<ggml_backend_set_n_threads_t>(
            ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), "ggml_backend_set_n_threads"));
        if (set_threads != nullptr) {
            set_threads_.emplace(backends_.back().get(), set_threads);
        }
    }
    thread_count(params.n_threads); // says so if it can't be
    make_scheduler(Graph::node_limit(hp, {}));
    for (int32_t il = 0; il < hp.n_layer; il++) {
        ggml_backend_dev_t device = loaded_.attention_device(il);
        const bool         can    = device_has_flash(device, hp.layer(il), params);
        if (params.flash == FlashAttention::on && !can) {
            fail("device ", ggml_backend_dev_name(device), " has no flash attention for head dimension ",
                 hp.layer(il).head_dim, "; use `flash` auto or off");
        }
        flash_.push_back(can && params.flash != FlashAttention::off);
    }
    // keys are padded so that a growing sequence keeps its graph for a while; GPU kernels like large tiles
    kv_pad_ = devices.size() > 1 ? 256 : 64;
}

void GgmlContext::make_scheduler(size_t n_nodes) {
    std::vector<ggml_backend_t> handles;
    for (const ggml_backend_ptr & backend : backends_) {
        handles.push_back(backend.get());
    }
    sched_.reset(ggml_backend_sched_new(handles.data(), nullptr, static_cast<int>(handles.size()), n_nodes, false,
                                        false)); // what is on the CPU is computed there
    sched_nodes_ = n_nodes;
}

void GgmlContext::kv_truncate(int32_t sequence, int32_t first) {
    if (sequence < 0 || sequence >= store_.n_sequences()) {
        fail("sequence ", sequence, " does not exist, the context has sequences 0 to ", store_.n_sequences() - 1);
    }
    store_.truncate(sequence, first);
    row_store_.set_length(sequence, std::min(row_store_.length(sequence), std::max(first, 0)));
}

ContextStats GgmlContext::stats() const {
    ContextStats stats = stats_;
    stats.kv_bytes     = store_.n_bytes() + row_store_.n_bytes() + logit_store_.n_bytes();
    for (const ggml_backend_ptr & backend : backends_) {
        stats.compute_bytes += ggml_backend_sched_get_buffer_size(sched_.get(), backend.get());
    }
    return stats;
}

void GgmlContext::begin_pass(std::span<const ForwardRequest> batch) {
    const Traits & traits = loaded_.info().traits;
    pass_.clear();
    for (const ForwardRequest & request : batch) {
        Sequence & seq   = pass_.emplace_back();
        seq.request      = &request;
        seq.positions    = positions_of(request);
        seq.n_own        = seq.positions.size() - static_cast<size_t>(request.n_shadow);
        seq.attention    = request.attention.value_or(traits.attention);
        seq.block_length = request.block_length > 0 ? request.block_length : traits.block_length;
        if (seq.attention == AttentionKind::block_causal && seq.block_length == 0) {
            fail("block-causal attention needs a block length, and the model does not specify one");
        }
        if (request.n_shadow > 0 && seq.attention != AttentionKind::full) {
            fail("a shadow needs full attention");
        }
        if (is_stored(seq)) {
            seq.present.resize(static_cast<size_t>(store_.n_ctx()));
            for (int32_t position = 0; position < store_.length(request.sequence); position++) {
                seq.present[static_cast<size_t>(position)] = store_.is_filled(request.sequence, position);
            }
            for (const int32_t position : seq.positions) {
                seq.present[static_cast<size_t>(position)] = true;
            }
        }
        place_edits(seq);
    }
}

SequenceKey GgmlContext::make_key(const Sequence & seq) const {
    const ForwardRequest & request = *seq.request;
    SequenceKey            key;
    key.n_tokens    = static_cast<int64_t>(request.tokens.size());
    key.output      = request.rows.empty() ? OutputKind::none : request.output;
    key.n_rows      = request.output == OutputKind::none ? 0 : static_cast<int64_t>(request.rows.size());
    key.kv          = request.kv;
    key.guidance    = request.guidance;
    key.canvas      = loaded_.hparams().canvases && seq.attention == AttentionKind::full;
    key.sequence    = request.condition || request.keep_logits ? request.sequence : 0;
    key.conditioned = request.condition.has_value();
    key.keeps       = request.keep_logits;
    key.draws       = request.draw.has_value();
    for (const Observer & observer : request.observers) {
        key.observers.push_back(observer_key(seq, observer));
    }
    add_edits(seq, key);
    if (!is_stored(seq)) {
        key.n_kv   = key.n_tokens;
        key.masked = seq.attention != AttentionKind::full || request.n_shadow > 0;
        return key;
    }
    const int64_t length = std::max<int64_t>(store_.length(request.sequence), seq.positions.back() + 1);
    // the last block sees every block; many passes are about it, so it is worth a graph without padding
    const bool last_block = seq.attention == AttentionKind::block_causal &&
                            seq.positions.front() / seq.block_length == (length - 1) / seq.block_length;
    const bool exact = last_block && loaded_.placement().cpu_only();
    key.sequence     = request.sequence;
    key.n_kv         = exact ? length : std::min<int64_t>(pad_to(length, kv_pad_), store_.n_ctx());
    // where every key exists and may be seen there is nothing to mask
    const bool sees_all = seq.attention == AttentionKind::full || last_block;
    key.masked          = !(sees_all && store_.n_filled_with(request.sequence, seq.positions) == key.n_kv);
    return key;
}

GraphKey GgmlContext::make_key() const {
    GraphKey key;
    key.all_rows = true;
    for (size_t s = 0; s < pass_.size(); s++) {
        const ForwardRequest & request = *pass_[s].request;
        key.sequences.push_back(make_key(pass_[s]));
        SequenceKey & seq = key.sequences.back();
        seq.leader        = s;
        const bool all =
            seq.n_rows == seq.n_tokens && std::is_sorted(request.rows.begin(), request.rows.end(), std::less_equal<>());
        key.all_rows = key.all_rows && all;
        key.extra    = key.extra || !request.extra.empty();
        key.refresh  = request.refresh;
        if (request.reset) {
            key.reset = ResetKey{static_cast<int64_t>(request.reset->track.size()), n_keys(pass_[s])};
        }
        key.products = key.products || std::any_of(request.observers.begin(), request.observers.end(),
                                                   [](const Observer & o) { return bool(o.products); });
    }
    for (size_t s = 0; s < pass_.size(); s++) {
        const SequenceKey & guided = key.sequences[s];
        if (guided.guidance) { // the unconditional one only serves it
            SequenceKey & other = key.sequences[guided.guidance->unconditional];
            other.output        = OutputKind::none;
            other.n_rows        = guided.n_rows;
            other.leader        = s;
            other.edited        = guided.edited;
            other.probed        = guided.probed;
            other.edits_by_head = guided.edits_by_head;
        }
    }
    return key;
}

void GgmlContext::prepare(const GraphKey & key) {
    if (graph_ && graph_->key() == key) {
        return;
    }
    graph_.reset();
    awaited_.clear();
    if (const size_t n_nodes = Graph::node_limit(loaded_.hparams(), key); n_nodes > sched_nodes_) {
        make_scheduler(n_nodes);
    }
    ggml_backend_sched_reset(sched_.get());
    graph_ = std::make_unique<Graph>(loaded_, model_->recipe(), key, store_, row_store_, logit_store_, flash_);
    pin_nodes();
    if (!ggml_backend_sched_alloc_graph(sched_.get(), graph_->cgraph())) {
        graph_.reset();
        fail_runtime("out of memory: the compute buffers for ", key.n_tokens(), " tokens against ",
                     key.sequences[0].n_kv, " keys could not be allocated");
    }
    for (const TapNode & node : graph_->taps()) {
        awaited_.insert(node.ready);
    }
    for (const EditNode & node : graph_->edits()) {
        awaited_.insert(node.ready);
    }
    for (const ProductNode & node : graph_->products()) {
        awaited_.insert(node.ready);
    }
    for (const ResetNode & node : graph_->resets()) {
        awaited_.insert(node.ready);
    }
    stats_.n_graph_build++;
    work_ = product_work(graph_->cgraph());
    set_threads();
    tell_splits();
}

void GgmlContext::set_threads() {
    stats_.n_threads_last = thread_count_for(pass_cost(graph_->cgraph()), params_.n_threads);
    for (const auto & [backend, set] : set_threads_) {
        set(backend, stats_.n_threads_last);
    }
}

void GgmlContext::pin_nodes() {
    const auto & devices = loaded_.placement().devices();
    const auto   pin     = [&](int32_t layer, ggml_tensor * tensor) {
        const auto found = std::find(devices.begin(), devices.end(), loaded_.attention_device(layer));
        ggml_backend_sched_set_tensor_backend(sched_.get(), tensor,
                                                    backends_[static_cast<size_t>(found - devices.begin())].get());
    };
    for (const EditNode & node : graph_->edits()) { // else the scheduler would copy a mask before it is written
        pin(node.layer, node.mask);
        pin(node.layer, node.pattern);
    }
    for (const PinnedNode & node : graph_->pinned()) {
        pin(node.layer, node.tensor);
    }
}

std::vector<GraphSplit> GgmlContext::graph_splits() const {
    return graph_ ? read_splits(sched_.get(), graph_->cgraph()) : std::vector<GraphSplit>();
}

void GgmlContext::tell_splits() {
    const LogCallback & log = model_->log();
    if (!log || (loaded_.placement().cpu_only() && !told_.empty())) {
        return;
    }
    const std::vector<GraphSplit> splits = graph_splits();
    std::string                   route; // graphs differ in size all the time, seldom in where they are computed
    for (const GraphSplit & split : splits) {
        route += split.device + "\n";
    }
    if (told_.insert(route).second) {
        log(LogLevel::info, splits_text(splits));
    }
}

bool GgmlContext::is_open(const Sequence & seq, int32_t window, size_t row, size_t column) const {
    const int32_t query = seq.positions[row];
    const int32_t key   = is_stored(seq) ? static_cast<int32_t>(column) : seq.positions[column];
    if (row < seq.n_own ? column >= seq.n_own && !is_stored(seq) : column < seq.n_own && key == query) {
        return false; // the sequence does not see its shadow, nor a shadow what it stands for
    }
    if (is_stored(seq) && !seq.present[column]) {
        return false;
    }
    // a canvas sees itself, and of what lies before it the same for all of its rows
    const bool    is_canvas = loaded_.hparams().canvases && seq.attention == AttentionKind::full;
    const int32_t distance  = is_canvas ? seq.positions.front() - key : std::abs(query - key);
    if (window > 0 && distance >= window) {
        return false;
    }
    switch (seq.attention) {
        case AttentionKind::full: return true;
        case AttentionKind::causal: return key <= query;
        case AttentionKind::block_causal: return key / seq.block_length <= query / seq.block_length;
    }
    return false;
}

void GgmlContext::set_mask(ggml_tensor * mask, const Sequence & seq, const std::vector<int32_t> & rows,
                           int32_t window) {
    if (mask->buffer == nullptr) { // no layer of the graph looks at it
        return;
    }
    const size_t      K      = static_cast<size_t>(mask->ne[0]);
    const ggml_fp16_t open   = ggml_fp32_to_fp16(0.0f);
    const ggml_fp16_t closed = ggml_fp32_to_fp16(-INFINITY);

    // rows beyond those given fill a tile of the attention kernel; what they see does not matter
    mask_.assign(K * static_cast<size_t>(mask->ne[1]), open);
    size_t at = 0;
    for (const int32_t row : rows) {
        for (size_t column = 0; column < K; column++) {
            mask_[at++] = is_open(seq, window, static_cast<size_t>(row), column) ? open : closed;
        }
    }
    ggml_backend_tensor_set(mask, mask_.data(), 0, mask_.size() * sizeof(ggml_fp16_t));
}

std::vector<float> GgmlContext::query_scales(const std::vector<int32_t> & positions) const {
    const HParams &    hp = loaded_.hparams();
    std::vector<float> scales;
    for (const int32_t position : positions) {
        const auto n = static_cast<float>(position / hp.query_length);
        scales.push_back(1.0f + hp.query_beta * std::log(1.0f + n));
    }
    return scales;
}

void GgmlContext::set_inputs() {
    const GraphInputs & in  = graph_->inputs();
    const auto          set = [](ggml_tensor * t, const auto & values) {
        if (t != nullptr && t->buffer != nullptr) { // absent where a graph does not need it
            ggml_backend_tensor_set(t, values.data(), 0, values.size() * sizeof(values[0]));
        }
    };
    std::vector<int32_t> tokens, positions, rows, positions_rows;
    cells_.clear();
    floats_.clear();
    for (size_t s = 0; s < pass_.size(); s++) {
        const Sequence &       seq     = pass_[s];
        const ForwardRequest & request = *seq.request;
        const SequenceInputs & own     = in.sequences[s];
        if (graph_->key().sequences[s].n_rows > 0) {
            for (const int32_t row : request.rows) {
                rows.push_back(static_cast<int32_t>(tokens.size()) + row);
                positions_rows.push_back(seq.positions[static_cast<size_t>(row)]);
            }
        }
        tokens.insert(tokens.end(), request.tokens.begin(), request.tokens.end());
        positions.insert(positions.end(), seq.positions.begin(), seq.positions.end());
        for (const int32_t position : seq.positions) {
            cells_.push_back(is_stored(seq) ? store_.cell(request.sequence, position) : 0);
        }
        floats_.insert(floats_.end(), request.extra.begin(), request.extra.end());
        floats_.resize(in.extra != nullptr ? tokens.size() * static_cast<size_t>(in.extra->ne[0]) : 0);
        const std::vector<int32_t> all_rows = all_if_empty({}, static_cast<int64_t>(seq.positions.size()));
        for (const auto & [window, mask] : own.masks) {
            set_mask(mask, seq, all_rows, window);
        }
        for (const auto & [window, mask] : own.masks_rows) {
            set_mask(mask, seq, request.rows, window);
        }
        if (own.condition != nullptr) {
            set(own.condition, std::vector<float>{request.condition->temperature});
        }
        if (own.draws != nullptr) {
            std::vector<float> draws;
            for (const float uniform : request.draw->uniform) {
                draws.push_back(request.draw->temperature);
                draws.push_back(uniform);
            }
            set(own.draws, draws);
        }
        for (size_t i = 0; i < own.observers.size(); i++) {
            set_observer_inputs(seq, shown(seq, request.observers[i].selection), own.observers[i]);
        }
    }
    set(in.tokens, tokens);
    set(in.positions, positions);
    set(in.rows, rows);
    set(in.positions_rows, positions_rows);
    if (in.scales != nullptr) {
        set(in.scales, query_scales(positions));
        set(in.scales_rows, query_scales(positions_rows));
    }
    set(in.cells, cells_);
    set(in.extra, floats_);
    if (in.track_cells != nullptr) {
        const Sequence &     seq = pass_[0];
        std::vector<int32_t> track_cells, track_rows;
        for (const int32_t position : seq.request->reset->track) {
            track_cells.push_back(static_cast<int32_t>(store_.cell(seq.request->sequence, position)));
            track_rows.push_back(static_cast<int32_t>(
                std::lower_bound(seq.positions.begin(), seq.positions.end(), position) - seq.positions.begin()));
        }
        set(in.track_cells, track_cells);
        set(in.track_rows, track_rows);
    }
    begin_edits();
}

const std::vector<ForwardResult> & GgmlContext::forward(std::span<const ForwardRequest> batch) {
    check_requests(batch, loaded_.info(), store_.n_ctx(), store_.n_sequences());
    results_.assign(batch.size(), {});
    run_pass(batch, 0);
    if (reset_at_) {
        const int32_t        layer = *reset_at_;
        const ForwardRequest all   = everything(batch[0], layer);
        run_pass({&all, 1}, layer);
        results_[0].reset_layer = layer;
    }
    if (graph_ && !pass_.empty()) {
        count_pass();
    }
    return results_;
}

// From that layer on all positions that are stored, for what the request asks of some.
ForwardRequest GgmlContext::everything(const ForwardRequest & part, int32_t layer_first) const {
    const std::vector<int32_t> given = positions_of(part);
    const auto                 at    = [&](int32_t row) { return given[static_cast<size_t>(row)]; };
    ForwardRequest             all   = part;
    all.tokens.assign(static_cast<size_t>(store_.length(part.sequence)), 0); // the layer's inputs are stored
    all.positions.clear();
    all.reset->track.clear();
    std::transform(part.rows.begin(), part.rows.end(), all.rows.begin(), at);
    std::erase_if(all.edits, [&](const AttentionEdit & edit) { return edit.layer < layer_first; });
    for (Observer & observer : all.observers) {
        std::vector<int32_t> & rows = observer.selection.rows;
        rows                        = all_if_empty(rows, static_cast<int64_t>(given.size()));
        std::transform(rows.begin(), rows.end(), rows.begin(), at);
        std::erase_if(observer.taps, [&](const TapPoint & point) { return point.layer < layer_first; });
        std::erase_if(observer.probed, [&](int32_t layer) { return layer < layer_first; });
    }
    return all;
}

// Memory for what the pass keeps, and a check that what it builds on is there.
void GgmlContext::prepare_partial() {
    const ForwardRequest & request = *pass_[0].request;
    const bool             fresh   = request.refresh ? request.refresh->prompt && request.refresh->answer
                                                     : request.reset && request.reset->track.empty();
    const int32_t          n       = n_keys(pass_[0]);
    if (request.refresh) {
        row_store_.ensure_memory(RowStore::Kind::added);
    } else if (request.reset) {
        row_store_.ensure_memory(RowStore::Kind::input);
        row_store_.ensure_memory(RowStore::Kind::query);
    } else {
        return;
    }
    if (pass_[0].attention != AttentionKind::full) {
        fail("a pass that chooses what it computes (adaptive caches) needs full attention");
    }
    for (const LayerParams & layer : loaded_.hparams().layers) {
        if (layer.window > 0) {
            fail("a pass that chooses what it computes (adaptive caches) is not defined for layers with a window");
        }
    }
    if (fresh && static_cast<size_t>(n) == pass_[0].positions.size()) {
        row_store_.set_length(request.sequence, n);
    } else if (row_store_.length(request.sequence) != n) {
        fail("a pass over a part of ", n, " positions needs one over all of them before it, found ",
             row_store_.length(request.sequence));
    }
}

// Memory for logits that are kept, and those of a condition that comes with its request.
void GgmlContext::prepare_logits() {
    for (const Sequence & seq : pass_) {
        const ForwardRequest & request = *seq.request;
        const auto             n       = static_cast<int64_t>(seq.positions.size());
        if (!request.condition && !request.keep_logits) {
            continue;
        }
        if (!loaded_.hparams().canvases || seq.attention != AttentionKind::full) {
            fail("only a canvas is conditioned on logits, and ", loaded_.info().arch,
                 loaded_.hparams().canvases ? " reads causally here" : " writes none");
        }
        if (logit_store_.ensure_memory(request.sequence, n)) {
            graph_.reset(); // may point there
        }
        if (request.condition && !request.condition->logits.empty()) {
            logit_store_.write(request.sequence, request.condition->logits);
        }
        if (request.condition && logit_store_.n_kept(request.sequence) != n) {
            fail("a canvas of ", n, " tokens can't be conditioned on the logits of ",
                 logit_store_.n_kept(request.sequence));
        }
    }
}

void GgmlContext::run_pass(std::span<const ForwardRequest> batch, int32_t layer_first) {
    begin_pass(batch);
    reset_at_          = std::nullopt;
    GraphKey key       = make_key();
    key.layer_first    = layer_first;
    const auto is_kept = [](const SequenceKey & seq) {
        return seq.kv == KvUse::store || !seq.probed.empty() ||
               std::any_of(seq.observers.begin(), seq.observers.end(),
                           [](const ObserverKey & observer) { return !observer.taps.empty(); });
    };
    const bool any_kept = std::any_of(key.sequences.begin(), key.sequences.end(), is_kept);
    if (key.n_rows() == 0 && !key.products && !any_kept) { // nothing would be kept
        pass_.clear();
        return;
    }
    if (std::any_of(pass_.begin(), pass_.end(), [this](const Sequence & seq) { return is_stored(seq); })) {
        store_.ensure_memory();
    }
    prepare_partial();
    prepare_logits();
    prepare(key);
    try {
        set_inputs();
        compute();
    } catch (...) {
        abandon_pass();
        throw;
    }
    for (const Sequence & seq : pass_) {
        if (is_stored(seq)) {
            store_.fill(seq.request->sequence, seq.positions);
        }
        if (seq.request->keep_logits) {
            logit_store_.set_kept(seq.request->sequence, static_cast<int64_t>(seq.positions.size()));
        }
    }
    if (reset_at_) { // layers before it did their part
        stats_.n_layer_rows += *reset_at_ * static_cast<int64_t>(pass_[0].positions.size());
        return;
    }
    read_outputs();
    read_refreshed();
    stats_.n_layer_rows += graph_->n_layer_rows();
}

// Some layers may have written their keys and values, others not.
void GgmlContext::abandon_pass() {
    for (const Sequence & seq : pass_) {
        if (is_stored(seq)) {
            store_.truncate(seq.request->sequence, seq.positions.front());
            logit_store_.set_kept(seq.request->sequence, 0);
            row_store_.set_length(seq.request->sequence, 0);
        }
    }
}

void GgmlContext::compute() {
    error_ = nullptr;
    ggml_backend_sched_set_eval_callback(sched_.get(), awaited_.empty() ? nullptr : on_node, this);
    const ggml_status status = ggml_backend_sched_graph_compute(sched_.get(), graph_->cgraph());
    if (error_) {
        std::rethrow_exception(error_);
    }
    if (status != GGML_STATUS_SUCCESS) {
        fail_runtime("the forward pass failed: ", ggml_status_to_string(status));
    }
}

void GgmlContext::read_refreshed() {
    if (!graph_->key().refresh) {
        return;
    }
    const PartialRefresh & r     = *graph_->key().refresh;
    const auto             n_all = static_cast<int32_t>(pass_[0].positions.size());
    for (int32_t il = 1; il < loaded_.hparams().n_layer && !(r.prompt && r.answer); il++) {
        if (graph_->key().sequences[0].is_edited(il)) { // computed whole
            continue;
        }
        std::vector<int32_t> & positions = results_[0].refreshed[il];
        for (int32_t position = 0; position < n_all; position++) {
            if (position < r.n_prompt ? r.prompt : r.answer) {
                positions.push_back(position);
            }
        }
        for (const RefreshNode & node : graph_->refreshes()) {
            if (node.layer == il) {
                ints_.resize(static_cast<size_t>(r.n_drifted));
                ggml_backend_tensor_get(node.drifted, ints_.data(), 0, ints_.size() * sizeof(int32_t));
                positions.insert(positions.end(), ints_.begin(), ints_.end());
            }
        }
        std::sort(positions.begin(), positions.end());
    }
}

void GgmlContext::count_pass() {
    if (loaded_.placement().cpu_only()) {
        stats_.work.quantised += work_.quantised;
        stats_.work.f16 += work_.f16;
        stats_.work.bf16 += work_.bf16;
        stats_.work.f32 += work_.f32;
        stats_.work.weight_bytes += work_.weight_bytes;
    }
    stats_.n_forward++;
    stats_.n_tokens += graph_->key().n_tokens();
    stats_.n_head_rows += graph_->n_head_rows();
    stats_.n_query_rows_last += graph_->n_query_rows(loaded_.hparams().n_layer - 1);
}

void GgmlContext::read_outputs() {
    for (const GraphOutput & output : graph_->outputs()) {
        if (graph_->key().sequences[output.first].output == OutputKind::summary) {
            read_summaries(output);
            continue;
        }
        size_t at = 0;
        for (size_t s = output.first; s < output.last; s++) {
            std::vector<float> & logits = results_[s].logits;
            logits.resize(static_cast<size_t>(graph_->key().sequences[s].n_rows * output.logits->ne[0]));
            if (!logits.empty()) {
                ggml_backend_tensor_get(output.logits, logits.data(), at, logits.size() * sizeof(float));
            }
            at += logits.size() * sizeof(float);
        }
    }
}

void GgmlContext::read_summaries(const GraphOutput & out) {
    const size_t            n = static_cast<size_t>(out.logits->ne[1]);
    std::vector<RowSummary> all(n);
    if (out.summaries != nullptr) {
        ggml_backend_tensor_get(out.summaries, all.data(), 0, ggml_nbytes(out.summaries));
    } else {
        const size_t         n_top = static_cast<size_t>(out.top_ids->ne[0]);
        std::vector<int32_t> ids(n * n_top);
        std::vector<float>   logits(n * n_top), probs(n * n_top), means(n);
        ggml_backend_tensor_get(out.top_ids, ids.data(), 0, ggml_nbytes(out.top_ids));
        ggml_backend_tensor_get(out.top_logits, logits.data(), 0, ggml_nbytes(out.top_logits));
        ggml_backend_tensor_get(out.top_probs, probs.data(), 0, ggml_nbytes(out.top_probs));
        ggml_backend_tensor_get(out.mean_logit, means.data(), 0, ggml_nbytes(out.mean_logit));
        for (size_t i = 0; i < n; i++) {
            const size_t a = i * n_top, b = a + n_top - 1;
            const bool   b_wins = logits[b] > logits[a] || (logits[b] == logits[a] && ids[b] < ids[a]);
            const size_t best   = b_wins ? b : a;
            RowSummary & row    = all[i];
            row.id              = ids[best];
            row.second_id       = ids[a + b - best];
            row.prob            = probs[best];
            row.margin          = n_top > 1 ? probs[best] - probs[a + b - best] : 1.0f;
            row.entropy         = std::max(0.0f, logits[best] - std::log(probs[best]) - means[i]);
            row.drawn_id        = row.id;
        }
    }
    auto at = all.begin();
    for (size_t s = out.first; s < out.last; s++) {
        const auto n_rows = static_cast<std::ptrdiff_t>(graph_->key().sequences[s].n_rows);
        results_[s].summaries.assign(at, at + n_rows);
        at += n_rows;
    }
}

int32_t GgmlContext::n_keys(const Sequence & seq) const {
    return is_stored(seq) ? std::max(store_.length(seq.request->sequence), seq.positions.back() + 1)
                          : static_cast<int32_t>(seq.n_own);
}

} // namespace buoy
