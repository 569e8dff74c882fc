#include "engine/ggml-context.h"

#include "base/fail.h"
#include "base/split-work.h"
#include "engine/context-length.h"
#include "engine/graph-splits.h"
#include "engine/tap-request.h"

#include <algorithm>
#include <cmath>

namespace buoy {

namespace {

int32_t choose_n_threads(int32_t n_threads) {
    constexpr int32_t n_threads_max = 512; // ggml's own limit
    if (n_threads < 0 || n_threads > n_threads_max) {
        fail("the number of threads is ", n_threads, ", expected 0 (one per core) to ", n_threads_max);
    }
    return n_threads > 0 ? n_threads : core_count();
}

bool device_has_flash(ggml_backend_dev_t device, const HParams & hp, const ContextParams & params) {
    ggml_context_ptr ctx{ggml_init({ggml_tensor_overhead() * 8, nullptr, true})};
    const auto       kv_type = [](KvType type) { return type == KvType::q8_0 ? GGML_TYPE_Q8_0 : GGML_TYPE_F16; };
    ggml_tensor *    q       = ggml_new_tensor_3d(ctx.get(), GGML_TYPE_F32, hp.head_dim, 32, hp.n_head);
    ggml_tensor *    k       = ggml_new_tensor_3d(ctx.get(), kv_type(params.type_k), hp.head_dim, 256, hp.n_head_kv);
    ggml_tensor *    v       = ggml_new_tensor_3d(ctx.get(), kv_type(params.type_v), hp.head_dim, 256, hp.n_head_kv);
    ggml_tensor *    mask    = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F16, 256, 32);
    return ggml_backend_dev_supports_op(device, ggml_flash_attn_ext(ctx.get(), q, k, v, mask, 1.0f, 0.0f, 0.0f));
}

std::vector<ggml_backend_dev_t> attention_devices(const Model & model) {
    std::vector<ggml_backend_dev_t> devices;
    for (int32_t il = 0; il < model.hparams().n_layer; il++) {
        devices.push_back(model.attention_device(il));
    }
    return devices;
}

int64_t pad_to(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

} // namespace

GgmlContext::GgmlContext(std::unique_ptr<const Model> model, const ContextParams & params, LogCallback log)
    : model_(std::move(model)), params_(params), log_(std::move(log)),
      store_(model_->hparams(), attention_devices(*model_), params,
             choose_n_ctx(params, model_->hparams().n_ctx_train, model_->info().traits.block_length)) {
    const HParams & hp      = model_->hparams();
    const auto &    devices = model_->placement().devices();
    if (params.n_streams < 1) {
        fail("the number of streams is ", params.n_streams, ", expected 1 or more");
    }

    std::vector<ggml_backend_t> handles;
    for (ggml_backend_dev_t device : devices) {
        backends_.emplace_back(ggml_backend_dev_init(device, nullptr));
        if (!backends_.back()) {
            fail_runtime("device ", ggml_backend_dev_name(device), " could not be started");
        }
        auto * set_threads = reinterpret_cast<ggml_backend_set_n_threads_t>(
            ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), "ggml_backend_set_n_threads"));
        if (set_threads != nullptr) {
            set_threads(backends_.back().get(), choose_n_threads(params.n_threads));
        }
        handles.push_back(backends_.back().get());
    }
    sched_.reset(ggml_backend_sched_new(handles.data(), nullptr, static_cast<int>(handles.size()),
                                        Graph::node_limit(hp), false, false)); // what is on the CPU is computed there
    for (int32_t il = 0; il < hp.n_layer; il++) {
        ggml_backend_dev_t device = model_->attention_device(il);
        const bool         can    = device_has_flash(device, hp, params);
        if (params.flash == FlashAttention::on && !can) {
            fail("device ", ggml_backend_dev_name(device), " has no flash attention for head dimension ", hp.head_dim,
                 "; use -fa auto or -fa off");
        }
        flash_.push_back(can && params.flash != FlashAttention::off);
    }
    // keys are padded so that a growing sequence keeps its graph for a while; GPU kernels like large tiles
    kv_pad_ = devices.size() > 1 ? 256 : 64;
}

ContextStats GgmlContext::stats() const {
    ContextStats stats = stats_;
    stats.kv_bytes     = store_.n_bytes();
    for (const ggml_backend_ptr & backend : backends_) {
        stats.compute_bytes += ggml_backend_sched_get_buffer_size(sched_.get(), backend.get());
    }
    return stats;
}

void GgmlContext::check(const ForwardRequest & request) const {
    const HParams & hp = model_->hparams();
    const size_t    S  = static_cast<size_t>(params_.n_streams);
    if (request.tokens.empty() || request.tokens.size() % S != 0) {
        fail("a forward pass got ", request.tokens.size(), " tokens, expected a positive multiple of the ", S,
             " streams");
    }
    const size_t T = request.tokens.size() / S;
    for (int32_t id : request.tokens) {
        if (id < 0 || id >= hp.n_vocab) {
            fail("token id ", id, " is outside the model's vocabulary of ", hp.n_vocab);
        }
    }
    if (!request.positions.empty() && request.positions.size() != T) {
        fail("a forward pass got ", request.positions.size(), " positions for ", T, " tokens");
    }
    int32_t previous = -1;
    for (int32_t position : request.positions) {
        if (position <= previous) {
            fail("position ", position, " follows ", previous, ", expected strictly increasing positions from 0");
        }
        previous = position;
    }
    const int64_t last = request.positions.empty() ? static_cast<int64_t>(T) - 1 : request.positions.back();
    if (request.kv == KvUse::store && last >= store_.n_ctx()) {
        fail("position ", last, " does not fit into the context of ", store_.n_ctx(), " (-c)");
    }
    if (request.block_length < 0) {
        fail("the block length is ", request.block_length, ", expected 0 (the model's) or more");
    }
    if (request.cfg_scale > 0.0f && params_.n_streams != 2) {
        fail("classifier-free guidance needs an engine with two streams, this one has ", params_.n_streams);
    }
    for (int32_t row : request.rows) {
        if (row < 0 || static_cast<size_t>(row) >= T) {
            fail("output row ", row, " is outside the ", T, " tokens given");
        }
    }
    check_taps(request, model_->info(), T);
}

GraphKey GgmlContext::make_key(const ForwardRequest & request) {
    GraphKey key;
    key.n_streams = params_.n_streams;
    key.n_tokens  = static_cast<int64_t>(request.tokens.size()) / key.n_streams;
    key.output    = request.rows.empty() ? OutputKind::none : request.output;
    key.n_rows    = request.output == OutputKind::none ? 0 : static_cast<int64_t>(request.rows.size());
    key.kv        = request.kv;
    key.cfg_scale = request.cfg_scale;
    key.all_rows  = key.n_rows == key.n_tokens;
    for (size_t i = 0; key.all_rows && i < request.rows.size(); i++) {
        key.all_rows = request.rows[i] == static_cast<int32_t>(i);
    }
    add_taps(request, key);
    add_edits(request, key);
    if (request.kv == KvUse::store) {
        const int64_t length = std::max<int64_t>(store_.length(), positions_.back() + 1);
        const auto    kind   = model_->info().traits.attention;
        // the last block sees every block; many passes are about it, so it is worth a graph without padding
        const bool last_block =
            kind == AttentionKind::block_causal && positions_.front() / block_length_ == (length - 1) / block_length_;
        const bool exact = last_block && model_->placement().cpu_only();
        key.n_kv         = exact ? length : std::min<int64_t>(pad_to(length, kv_pad_), store_.n_ctx());
        // where every key exists and may be seen there is nothing to mask
        const bool sees_all = kind == AttentionKind::full || last_block;
        key.masked          = !(sees_all && store_.n_filled_with(positions_) == key.n_kv);
    } else {
        key.n_kv   = key.n_tokens;
        key.masked = model_->info().traits.attention != AttentionKind::full;
    }
    return key;
}

void GgmlContext::prepare(const GraphKey & key) {
    if (graph_ && graph_->key() == key) {
        return;
    }
    graph_.reset();
    ggml_backend_sched_reset(sched_.get());
    graph_ = std::make_unique<Graph>(*model_, key, &store_, flash_);
    pin_nodes();
    if (!ggml_backend_sched_alloc_graph(sched_.get(), graph_->cgraph())) {
        graph_.reset();
        fail_runtime("out of memory: the compute buffers for ", key.n_tokens, " tokens against ", key.n_kv,
                     " keys could not be allocated");
    }
    stats_.n_graph_build++;
    tell_splits();
}

void GgmlContext::pin_nodes() {
    const auto & devices = model_->placement().devices();
    const auto   pin     = [&](int32_t layer, ggml_tensor * tensor) {
        const auto found = std::find(devices.begin(), devices.end(), model_->attention_device(layer));
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
    if (!log_ || (model_->placement().cpu_only() && !told_.empty())) {
        return;
    }
    const std::vector<GraphSplit> splits = graph_splits();
    std::string                   route; // graphs differ in size all the time, seldom in where they are computed
    for (const GraphSplit & split : splits) {
        route += split.device + "\n";
    }
    if (told_.insert(route).second) {
        log_(LogLevel::info, splits_text(splits));
    }
}

bool GgmlContext::is_open(int32_t query, size_t column) const {
    const bool    stored = graph_->key().kv == KvUse::store;
    const int32_t key    = stored ? static_cast<int32_t>(column) : positions_[column];
    if (stored && !store_.is_filled(key)) {
        return false;
    }
    const Traits & traits = model_->info().traits;
    switch (traits.attention) {
        case AttentionKind::full: return true;
        case AttentionKind::causal: return key <= query;
        case AttentionKind::block_causal: return key / block_length_ <= query / block_length_;
    }
    return false;
}

void GgmlContext::set_mask(ggml_tensor * mask, const std::vector<int32_t> & query_positions) {
    const size_t      K      = static_cast<size_t>(mask->ne[0]);
    const ggml_fp16_t open   = ggml_fp32_to_fp16(0.0f);
    const ggml_fp16_t closed = ggml_fp32_to_fp16(-INFINITY);

    // rows beyond the queries fill a tile of the attention kernel; what they see does not matter
    mask_.assign(K * static_cast<size_t>(mask->ne[1]), open);
    size_t at = 0;
    for (int32_t query : query_positions) {
        for (size_t column = 0; column < K; column++) {
            mask_[at++] = is_open(query, column) ? open : closed;
        }
    }
    ggml_backend_tensor_set(mask, mask_.data(), 0, mask_.size() * sizeof(ggml_fp16_t));
}

void GgmlContext::set_inputs(const ForwardRequest & request) {
    const GraphInputs & in       = graph_->inputs();
    const size_t        T        = positions_.size();
    const size_t        S        = static_cast<size_t>(params_.n_streams);
    const auto          set_ints = [&](ggml_tensor * t) {
        ggml_backend_tensor_set(t, ints_.data(), 0, ints_.size() * sizeof(int32_t));
    };

    ggml_backend_tensor_set(in.tokens, request.tokens.data(), 0, request.tokens.size() * sizeof(int32_t));
    ints_.clear();
    for (size_t s = 0; s < S; s++) {
        ints_.insert(ints_.end(), positions_.begin(), positions_.end());
    }
    if (in.positions->buffer != nullptr) { // absent from the graph when only the embedding is needed
        set_ints(in.positions);
    }
    if (in.rows != nullptr && in.rows->buffer != nullptr) {
        ints_.clear();
        for (size_t s = 0; s < S; s++) {
            for (int32_t row : request.rows) {
                ints_.push_back(static_cast<int32_t>(s * T) + row);
            }
        }
        set_ints(in.rows);
    }
    std::vector<int32_t> row_positions;
    if (in.positions_rows != nullptr) {
        for (int32_t row : request.rows) {
            row_positions.push_back(positions_[static_cast<size_t>(row)]);
        }
        ints_.clear();
        for (size_t s = 0; s < S; s++) {
            ints_.insert(ints_.end(), row_positions.begin(), row_positions.end());
        }
        set_ints(in.positions_rows);
    }
    if (in.cells != nullptr) {
        cells_.assign(positions_.begin(), positions_.end());
        ggml_backend_tensor_set(in.cells, cells_.data(), 0, cells_.size() * sizeof(int64_t));
    }
    if (in.mask != nullptr && in.mask->buffer != nullptr) {
        set_mask(in.mask, positions_);
    }
    if (in.mask_rows != nullptr) {
        set_mask(in.mask_rows, row_positions);
    }
    set_tap_inputs(request.selection);
    begin_edits();
}

const ForwardResult & GgmlContext::forward(const ForwardRequest & request) {
    check(request);
    positions_ = request.positions;
    for (int32_t i = 0;
         request.positions.empty() && i < static_cast<int32_t>(request.tokens.size()) / params_.n_streams; i++) {
        positions_.push_back(i);
    }
    block_length_      = request.block_length > 0 ? request.block_length : model_->info().traits.block_length;
    const GraphKey key = make_key(request);
    if (key.n_rows == 0 && key.kv == KvUse::none && key.taps.empty() && key.probed.empty()) { // nothing would be kept
        result_ = {};
        return result_;
    }
    if (request.kv == KvUse::store) {
        store_.ensure_memory();
    }
    prepare(key);
    if (request.kv == KvUse::store) {
        store_.fill(positions_);
    }
    set_inputs(request);
    compute(request);
    read_outputs(request);

    stats_.n_forward++;
    stats_.n_tokens += static_cast<int64_t>(request.tokens.size());
    stats_.n_head_rows += graph_->outputs().logits != nullptr ? graph_->outputs().logits->ne[1] : 0;
    stats_.n_query_rows_last += graph_->n_query_rows(model_->hparams().n_layer - 1);
    return result_;
}

bool GgmlContext::on_watched(ggml_tensor * tensor, bool ask, void * self) {
    GgmlContext & context = *static_cast<GgmlContext *>(self);
    try {
        return context.tap_error_ ? !ask : context.watcher_(tensor, ask);
    } catch (...) { // must not pass through ggml's C code
        context.tap_error_ = std::current_exception();
        return false;
    }
}

void GgmlContext::compute(const ForwardRequest & request) {
    current_            = &request;
    tap_error_          = nullptr;
    const bool observed = !graph_->taps().empty() || !graph_->edits().empty();
    ggml_backend_sched_set_eval_callback(sched_.get(), watcher_ ? on_watched : observed ? on_node : nullptr, this);
    const ggml_status status = ggml_backend_sched_graph_compute(sched_.get(), graph_->cgraph());
    current_                 = nullptr;
    if (tap_error_) {
        if (request.kv == KvUse::store) {
            store_.truncate(positions_.front()); // only some layers have written theirs
        }
        std::rethrow_exception(tap_error_);
    }
    if (status != GGML_STATUS_SUCCESS) {
        fail_runtime("the forward pass failed: ", ggml_status_to_string(status));
    }
}

void GgmlContext::read_outputs(const ForwardRequest & request) {
    const GraphOutputs & out = graph_->outputs();
    result_.logits.clear();
    result_.summaries.clear();
    if (request.output == OutputKind::logits && out.logits != nullptr) {
        result_.logits.resize(static_cast<size_t>(ggml_nelements(out.logits)));
        ggml_backend_tensor_get(out.logits, result_.logits.data(), 0, ggml_nbytes(out.logits));
    } else if (request.output == OutputKind::summary && out.logits != nullptr) {
        read_summaries();
    }
}

void GgmlContext::read_summaries() {
    const GraphOutputs & out = graph_->outputs();
    if (out.summaries != nullptr) {
        result_.summaries.resize(static_cast<size_t>(out.summaries->ne[1]));
        ggml_backend_tensor_get(out.summaries, result_.summaries.data(), 0, ggml_nbytes(out.summaries));
        return;
    }
    const size_t         n     = static_cast<size_t>(out.top_ids->ne[1]);
    const size_t         n_top = static_cast<size_t>(out.top_ids->ne[0]);
    std::vector<int32_t> ids(n * n_top);
    std::vector<float>   logits(n * n_top), probs(n * n_top), means(n);
    ggml_backend_tensor_get(out.top_ids, ids.data(), 0, ggml_nbytes(out.top_ids));
    ggml_backend_tensor_get(out.top_logits, logits.data(), 0, ggml_nbytes(out.top_logits));
    ggml_backend_tensor_get(out.top_probs, probs.data(), 0, ggml_nbytes(out.top_probs));
    ggml_backend_tensor_get(out.mean_logit, means.data(), 0, ggml_nbytes(out.mean_logit));

    result_.summaries.resize(n);
    for (size_t i = 0; i < n; i++) {
        const size_t a = i * n_top, b = a + n_top - 1;
        const bool   b_wins = logits[b] > logits[a] || (logits[b] == logits[a] && ids[b] < ids[a]);
        const size_t best   = b_wins ? b : a;
        RowSummary & row    = result_.summaries[i];
        row.id              = ids[best];
        row.second_id       = ids[a + b - best];
        row.prob            = probs[best];
        row.margin          = n_top > 1 ? probs[best] - probs[a + b - best] : 1.0f;
        row.entropy         = std::max(0.0f, logits[best] - std::log(probs[best]) - means[i]);
    }
}

int32_t GgmlContext::n_keys() const {
    return graph_->key().kv == KvUse::store ? store_.length() : static_cast<int32_t>(positions_.size());
}

} // namespace buoy
