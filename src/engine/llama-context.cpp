#include "engine/llama-context.h"

#include "base/split-work.h"
#include "buoy/message.h"
#include "engine/pass-work.h"
#include "engine/request-check.h"
#include "engine/row-summary.h"
#include "graph/kv-store.h"

#include <algorithm>
#include <array>
#include <limits>

namespace buoy {

namespace {

constexpr int32_t chunk_max = 512; // tokens that a causal pass with a store computes at once

llama_flash_attn_type to_flash_type(FlashAttention flash) {
    switch (flash) {
        case FlashAttention::off: return LLAMA_FLASH_ATTN_TYPE_DISABLED;
        case FlashAttention::on: return LLAMA_FLASH_ATTN_TYPE_ENABLED;
        case FlashAttention::automatic: return LLAMA_FLASH_ATTN_TYPE_AUTO;
    }
    return LLAMA_FLASH_ATTN_TYPE_AUTO;
}

std::vector<TapPoint> all_taps(const ForwardRequest & request) {
    std::vector<TapPoint> taps;
    for (const Observer & observer : request.observers) {
        taps.insert(taps.end(), observer.taps.begin(), observer.taps.end());
    }
    return taps;
}

} // namespace

LlamaContext::LlamaContext(std::shared_ptr<const LlamaModel> model, const ContextParams & params)
    : model_(std::move(model)), path_(model_->info().path), params_(params), flash_(params.flash),
      taps_(model_->rope_interleaved(), model_->n_rotated()), n_ctx_(choose_n_ctx(params, model_->info().n_ctx_train)) {
    thread_count(params.n_threads); // says so if it can't be
    if (params.n_sequences != 1) {
        fail("the number of sequences is ", params.n_sequences, ", but a libllama context has only one");
    }
}

LlamaContextPtr LlamaContext::make_context(int32_t n_ctx, int32_t n_batch, bool store) {
    const bool flash = flash_ != FlashAttention::off;

    llama_context_params params = llama_context_default_params();
    params.n_ctx                = static_cast<uint32_t>(n_ctx);
    params.n_batch              = static_cast<uint32_t>(n_batch);
    params.n_ubatch             = static_cast<uint32_t>(n_batch);
    params.flash_attn_type      = to_flash_type(flash_);
    // A pass without a store has nothing to save memory on.
    params.type_k = store ? kv_ggml_type(params_.type_k) : flash ? GGML_TYPE_F16 : GGML_TYPE_F32;
    params.type_v = store ? kv_ggml_type(params_.type_v) : flash ? GGML_TYPE_F16 : GGML_TYPE_F32;
    params.attention_type =
        info().traits.attention == AttentionKind::full ? LLAMA_ATTENTION_TYPE_NON_CAUSAL : LLAMA_ATTENTION_TYPE_CAUSAL;
    params.swa_full          = true; // else sliding windows forget what kv_truncate goes back to
    params.cb_eval           = &LlamaContext::on_node;
    params.cb_eval_user_data = this;

    const LlamaScope scope(model_->log());
    LlamaContextPtr  context(llama_init_from_model(model_->handle(), params));
    if (!context) {
        fail_runtime(printable(path_), ": libllama cannot make a context for ", n_ctx,
                     " tokens: ", printable(scope.error_or("no reason given")));
    }
    return context;
}

llama_context * LlamaContext::plain_context(int32_t n_tokens) {
    if (!plain_ || n_tokens > plain_n_) {
        plain_.reset();
        plain_n_ = (n_tokens + 63) / 64 * 64;
        plain_   = make_context(plain_n_, plain_n_, false);
    }
    if (llama_memory_t memory = llama_get_memory(plain_.get())) {
        llama_memory_clear(memory, false);
    }
    return plain_.get();
}

llama_context * LlamaContext::stored_context(int32_t first) {
    if (!stored_) {
        stored_ = make_context(n_ctx_, std::min(n_ctx_, chunk_max), true);
    }
    if (llama_get_memory(stored_.get()) == nullptr) {
        fail(printable(path_), ": libllama stores no K/V for the architecture ", info().arch);
    }
    kv_truncate(0, first);
    return stored_.get();
}

void LlamaContext::kv_truncate(int32_t sequence, int32_t first) {
    if (sequence != 0) {
        fail("sequence ", sequence, " does not exist, a libllama context has only sequence 0");
    }
    if (first < 0) {
        fail("K/V from position ", first, " on cannot be removed, expected 0 or more");
    }
    // Even where nothing is known to be there: a pass that failed may have stored a part of its tokens.
    if (!stored_) {
        return;
    }
    if (!llama_memory_seq_rm(llama_get_memory(stored_.get()), 0, first, -1)) {
        fail(printable(path_), ": the architecture ", info().arch, " cannot remove a part of its stored K/V");
    }
    stored_n_ = std::min(stored_n_, first);
}

int32_t LlamaContext::first_position(const ForwardRequest & request) const {
    return request.positions.empty() ? 0 : request.positions[0];
}

void LlamaContext::check(const ForwardRequest & request) const {
    const int64_t first = first_position(request);
    if (request.n_shadow > 0) {
        fail("a shadow block (algorithm wino) needs buoy's own engine, and this model runs through libllama");
    }
    if (request.refresh || request.reset) {
        fail("an adaptive cache (elastic, dllm) needs buoy's own engine, and this model runs through libllama");
    }
    for (size_t i = 0; i < request.positions.size(); i++) {
        if (request.positions[i] != first + static_cast<int64_t>(i)) {
            fail("position ", request.positions[i], " at ", i, ": libllama needs consecutive positions, without gaps");
        }
    }
    if (request.attention && *request.attention != info().traits.attention) {
        fail("libllama runs this model with ", attention_kind_name(info().traits.attention),
             " attention only, but the request asks for ", attention_kind_name(*request.attention));
    }
    if (!request.extra.empty()) {
        fail("libllama does not support extra input to the embedding");
    }
    if (request.condition || request.keep_logits || request.draw) {
        fail(
            "a canvas (self-conditioning, drawn tokens) needs buoy's own engine, and this model runs through libllama");
    }
    if (request.guidance) {
        fail("classifier-free guidance needs buoy's own engine, and this model runs through libllama");
    }
    for (const Observer & observer : request.observers) {
        if (observer.products) {
            fail("architecture ", in_quotes(info().arch), " runs through libllama, which can't be observed this way");
        }
    }
    if (request.kv == KvUse::none) {
        return;
    }
    if (info().traits.attention != AttentionKind::causal) {
        fail(printable(path_), ": K/V cannot be stored for full attention through libllama");
    }
    if (first > stored_n_) {
        fail("position ", first, " would leave a gap after the ", stored_n_, " stored positions");
    }
}

void LlamaContext::check_observable(const ForwardRequest & request) const {
    for (const TapPoint & point : all_taps(request)) {
        if (point.tap != Tap::resid_post && flash_ == FlashAttention::on) {
            fail(tap_name(point.tap, point.layer),
                 " cannot be observed through libllama with flash attention; use `flash` off");
        }
        const bool rotated = point.tap == Tap::rot_q || point.tap == Tap::rot_k;
        if (rotated && request.kv == KvUse::store && params_.type_k == KvType::q8_0) {
            fail(tap_name(point.tap, point.layer), " cannot be observed while K is stored as q8_0; use f16 or f32");
        }
    }
}

// Contexts are made anew without flash attention, and what was stored is computed once more.
void LlamaContext::leave_flash() {
    flash_ = FlashAttention::off;
    plain_.reset();
    stored_.reset();
    ForwardRequest again;
    again.tokens.assign(stored_tokens_.begin(), stored_tokens_.begin() + stored_n_);
    again.output = OutputKind::none;
    again.kv     = KvUse::store;
    stored_n_    = 0;
    if (!again.tokens.empty()) {
        ForwardResult nothing;
        run(again, nothing);
    }
}

const std::vector<ForwardResult> & LlamaContext::forward(std::span<const ForwardRequest> batch) {
    for (const ForwardRequest & request : batch) {
        const bool probed = std::any_of(request.observers.begin(), request.observers.end(),
                                        [](const Observer & observer) { return !observer.probed.empty(); });
        if (probed || !request.edits.empty()) {
            check_can_edit(model());
        }
    }
    check_requests(batch, info(), n_ctx_, 1);
    for (const ForwardRequest & request : batch) {
        check(request);
        check_observable(request);
    }
    results_.assign(batch.size(), {});
    for (size_t i = 0; i < batch.size(); i++) {
        run(batch[i], results_[i]);
    }
    return results_;
}

void LlamaContext::run(const ForwardRequest & request, ForwardResult & result) {
    const std::vector<TapPoint> taps = all_taps(request);
    if (flash_ == FlashAttention::automatic &&
        std::any_of(taps.begin(), taps.end(), [](const TapPoint & point) { return point.tap != Tap::resid_post; })) {
        leave_flash();
    }

    const auto    T      = static_cast<int32_t>(request.tokens.size());
    const int32_t first  = first_position(request);
    const bool    store  = request.kv == KvUse::store;
    const bool    output = request.output != OutputKind::none && !request.rows.empty();
    // The last block drops the rows that nobody asked for, but a tap shows all of them.
    const bool all_rows = std::any_of(taps.begin(), taps.end(), [this](const TapPoint & point) {
        return point.tap == Tap::resid_post && point.layer == info().n_layer - 1;
    });

    llama_context * context = store ? stored_context(first) : plain_context(T);
    const int32_t   chunk   = store ? static_cast<int32_t>(llama_n_batch(context)) : T;

    positions_.resize(request.tokens.size());
    wanted_.assign(request.tokens.size(), all_rows ? 1 : 0);
    for (int32_t i = 0; i < T; i++) {
        positions_[static_cast<size_t>(i)] = first + i;
    }
    for (const int32_t row : request.rows) {
        wanted_[static_cast<size_t>(row)] = output || all_rows ? 1 : 0;
    }
    const size_t n_out = output ? request.rows.size() : 0;
    const auto   V     = static_cast<size_t>(info().n_vocab);
    result.logits.assign(request.output == OutputKind::logits ? n_out * V : 0, 0.0f);
    result.summaries.assign(request.output == OutputKind::summary ? n_out : 0, {});

    taps_.begin(request, first, T, store ? first + T : T);
    for (int32_t at = 0; at < T; at += chunk) {
        compute(context, request, at, std::min(chunk, T - at));
        if (output) {
            read_rows(context, request, at, std::min(chunk, T - at), result);
        }
    }
    if (store) {
        stored_n_ = first + T;
        stored_tokens_.resize(static_cast<size_t>(first));
        stored_tokens_.insert(stored_tokens_.end(), request.tokens.begin(), request.tokens.end());
    }
    taps_.end();
    stats_.n_forward++;
    stats_.n_tokens += static_cast<int64_t>(request.tokens.size());
}

bool LlamaContext::on_node(ggml_tensor * node, bool ask, void * self) {
    LlamaContext & context = *static_cast<LlamaContext *>(self);
    if (ask) {
        context.nodes_.see(node);
    }
    return LlamaTaps::on_node(node, ask, &context.taps_);
}

void LlamaContext::compute(llama_context * context, const ForwardRequest & request, int32_t chunk_first,
                           int32_t chunk_n) {
    const bool  has_memory = llama_get_memory(context) != nullptr;
    llama_batch batch{};
    batch.n_tokens = chunk_n;
    batch.token    = const_cast<llama_token *>(request.tokens.data()) + chunk_first;
    batch.pos      = positions_.data() + chunk_first;
    batch.logits   = wanted_.data() + chunk_first;

    nodes_.begin();
    taps_.begin_chunk(chunk_first, chunk_n);
    const LlamaScope scope(model_->log());
    const auto       n_params = static_cast<int64_t>(llama_model_n_params(model_->handle()));
    stats_.n_threads_last     = thread_count_for(pass_cost(n_params, chunk_n), params_.n_threads);
    llama_set_n_threads(context, stats_.n_threads_last, stats_.n_threads_last);
    int32_t status = 0;
    try {
        status = llama_decode(context, batch);
        llama_synchronize(context);
    } catch (const std::exception & error) {
        fail_runtime(printable(path_), ": the forward pass failed in libllama: ", printable(error.what()));
    }
    taps_.end_chunk();
    if (status != 0) {
        fail_runtime(printable(path_),
                     ": the forward pass failed in libllama: ", printable(scope.error_or(concat("status ", status))));
    }
    const auto n_rows = has_memory ? std::count(batch.logits, batch.logits + chunk_n, 1) : chunk_n;
    stats_.n_head_rows += n_rows;
    stats_.n_query_rows_last += chunk_n; // libllama computes every query
}

void LlamaContext::read_rows(llama_context * context, const ForwardRequest & request, int32_t chunk_first,
                             int32_t chunk_n, ForwardResult & result) {
    const auto V = static_cast<size_t>(info().n_vocab);
    for (size_t i = 0; i < request.rows.size(); i++) {
        const int32_t row = request.rows[i];
        if (row < chunk_first || row >= chunk_first + chunk_n) {
            continue;
        }
        const float * logits = llama_get_logits_ith(context, row - chunk_first);
        if (logits == nullptr) {
            fail_runtime(printable(path_), ": libllama returned no logits for row ", row);
        }
        if (request.output == OutputKind::summary) {
            result.summaries[i] = summarize_row(logits, V);
        } else {
            std::copy(logits, logits + V, result.logits.begin() + static_cast<std::ptrdiff_t>(i * V));
        }
    }
}

} // namespace buoy
