#include "engine/llama-context.h"

#include "arch/arch.h"
#include "base/fail.h"
#include "base/printable.h"
#include "base/split-work.h"
#include "engine/context-length.h"
#include "engine/edit-limits.h"
#include "engine/memory-use.h"
#include "engine/row-summary.h"
#include "engine/tap-request.h"
#include "model/loader.h"
#include "model/placement.h"
#include "text/vocab-keys.h"

#include <algorithm>
#include <array>
#include <limits>

namespace buoy {

namespace {

constexpr int32_t n_threads_max = 512; // ggml's own limit
constexpr int32_t chunk_max     = 512; // tokens that a causal pass with a store computes at once
constexpr int64_t n_layer_max   = 512; // libllama's own limit, above which it aborts

// What upstream's diffusion architectures assume where the file is silent; everything else is autoregressive.
ArchDefaults arch_defaults(const std::string & arch) {
    ArchDefaults defaults;
    if (arch == "llada" || arch == "llada-moe" || arch == "dream" || arch == "rnd1") {
        defaults.attention = AttentionKind::full;
        defaults.shift     = arch == "dream" || arch == "rnd1";
    }
    return defaults;
}

std::string known_names() {
    std::string names;
    for (const std::string & name : arch_names()) {
        names += (names.empty() ? "" : ", ") + name;
    }
    return names;
}

// libllama aborts on numbers that it did not expect, so they are looked at before it sees them.
void check_keys(const GgufFile & file, const std::string & arch) {
    if (file.has(arch + ".block_count")) {
        file.require_int(arch + ".block_count", 1, n_layer_max);
    }
    for (const char * key :
         {".embedding_length", ".context_length", ".attention.head_count", ".attention.head_count_kv"}) {
        if (file.has(arch + key) && !file.is_array(arch + key)) {
            file.require_int(arch + key, 0, std::numeric_limits<int32_t>::max());
        }
    }
    const std::string scaling = file.get_string(arch + ".rope.scaling.type").value_or("none");
    if (scaling != "none" && scaling != "linear" && scaling != "yarn" && scaling != "longrope") {
        fail(printable(file.paths()[0]), ": key ", in_quotes(arch + ".rope.scaling.type"),
             ": expected none, linear, yarn or longrope, found ", in_quotes(scaling));
    }
    if (file.get_string("tokenizer.ggml.model").value_or("none") != "none") {
        read_vocab_keys(file);
    }
}

// libllama loads matrices of every type, and jumps to no function where the CPU can't multiply with them.
void check_tensors(const GgufFile & file) {
    const std::string suffix = ".weight"; // tables of ids have other names
    for (const GgufTensor & tensor : file.tensors()) {
        const bool is_weight = tensor.name.size() > suffix.size() &&
                               tensor.name.compare(tensor.name.size() - suffix.size(), suffix.size(), suffix) == 0;
        if (is_weight && !is_matrix_type(tensor.type)) {
            fail(printable(file.paths()[static_cast<size_t>(tensor.file)]), ": tensor ", in_quotes(tensor.name),
                 ": expected type f32, f16, bf16 or one of the quantised, found ", ggml_type_name(tensor.type));
        }
    }
}

ggml_type to_ggml_type(KvType type) {
    return type == KvType::f32 ? GGML_TYPE_F32 : type == KvType::q8_0 ? GGML_TYPE_Q8_0 : GGML_TYPE_F16;
}

llama_flash_attn_type to_flash_type(FlashAttention flash) {
    switch (flash) {
        case FlashAttention::off: return LLAMA_FLASH_ATTN_TYPE_DISABLED;
        case FlashAttention::on: return LLAMA_FLASH_ATTN_TYPE_ENABLED;
        case FlashAttention::automatic: return LLAMA_FLASH_ATTN_TYPE_AUTO;
    }
    return LLAMA_FLASH_ATTN_TYPE_AUTO;
}

bool report_progress(float done, void * data) {
    const auto & progress = *static_cast<const ProgressCallback *>(data);
    return !progress || progress(done);
}

} // namespace

void check_can_edit(const Context & context) {
    if (!context.can_edit()) {
        fail("edits of the attention need an architecture of our own (", known_names(), "), and ",
             in_quotes(context.info().arch), " runs through libllama");
    }
}

LlamaContext::LlamaContext(const ModelParams & model, const ContextParams & params)
    : path_(model.path), log_(model.log), params_(params) {
    if (params.n_streams != 1) {
        fail("the number of streams is ", params.n_streams, ", the engine over libllama has one");
    }
    if (params.n_threads < 0 || params.n_threads > n_threads_max) {
        fail("the number of threads is ", params.n_threads, ", expected 0 (one per core) to ", n_threads_max);
    }
    n_threads_ = params.n_threads > 0 ? params.n_threads : core_count();

    const GgufFile file = GgufFile::open(model.path);
    load(file, model);
    read_info(file);
    n_ctx_ = choose_n_ctx(params, info_.n_ctx_train);
}

void LlamaContext::load(const GgufFile & file, const ModelParams & params) {
    info_.arch = file.require_string("general.architecture");
    check_keys(file, info_.arch);
    check_tensors(file);
    info_.traits = read_traits(file, info_.arch, arch_defaults(info_.arch));
    if (info_.traits.attention == AttentionKind::block_causal) {
        fail(printable(path_), ": attention in blocks of ", info_.traits.block_length,
             ", libllama runs full or causal attention only");
    }

    const auto      n_layer = file.get_int(info_.arch + ".block_count").value_or(1);
    const Placement placement(params, file, static_cast<int32_t>(n_layer), estimate_memory(file, info_.arch, params_));
    std::vector<ggml_backend_dev_t> devices = placement.devices();
    devices.back()                          = nullptr; // the CPU, which libllama always has; its list ends with null
    std::vector<float> shares(std::max(llama_max_devices(), devices.size())); // layers, the head counted as one
    for (int32_t il = 0; il <= n_layer; il++) {
        const auto found = std::find(devices.begin(), devices.end(), placement.device(il));
        if (found != devices.end()) {
            shares[static_cast<size_t>(found - devices.begin())]++;
        }
    }
    std::vector<std::string>                      patterns; // one for each weight that is elsewhere
    std::vector<llama_model_tensor_buft_override> overrides;
    for (const auto & [name, device] : placement.exceptions()) {
        patterns.push_back("^" + name + "$");
    }
    for (const auto & [name, device] : placement.exceptions()) {
        overrides.push_back({patterns[overrides.size()].c_str(), ggml_backend_dev_buffer_type(device)});
    }
    overrides.push_back({nullptr, nullptr});

    llama_model_params load_params          = llama_model_default_params();
    load_params.devices                     = devices.data();
    load_params.n_gpu_layers                = placement.n_offloaded();
    load_params.tensor_split                = shares.data();
    load_params.tensor_buft_overrides       = overrides.data();
    load_params.load_mode                   = params.use_mmap ? LLAMA_LOAD_MODE_MMAP : LLAMA_LOAD_MODE_NONE;
    load_params.use_extra_bufts             = params.use_repack;
    load_params.progress_callback           = report_progress;
    load_params.progress_callback_user_data = const_cast<ProgressCallback *>(&params.progress);

    std::vector<const char *> paths;
    for (const std::string & path : file.paths()) {
        paths.push_back(path.c_str());
    }
    const LlamaScope scope(log_);
    model_.reset(paths.size() == 1 ? llama_model_load_from_file(paths[0], load_params)
                                   : llama_model_load_from_splits(paths.data(), paths.size(), load_params));
    if (!model_) {
        const std::string why = scope.error_or("loading was cancelled");
        if (why.find("unknown model architecture") != std::string::npos) {
            fail(printable(path_), ": key 'general.architecture': expected ", known_names(), ", found ",
                 in_quotes(info_.arch), ", which libllama does not know either");
        }
        fail(printable(path_), ": ", printable(why));
    }
}

void LlamaContext::read_info(const GgufFile & file) {
    const llama_model * model = model_.get();
    info_.path                = path_;
    info_.name                = file.get_string("general.name").value_or("");
    info_.n_vocab             = llama_vocab_n_tokens(llama_model_get_vocab(model));
    info_.n_embd              = llama_model_n_embd(model);
    info_.n_layer             = llama_model_n_layer(model);
    info_.n_head              = llama_model_n_head(model);
    info_.n_head_kv           = llama_model_n_head_kv(model);
    info_.n_ctx_train         = llama_model_n_ctx_train(model);
    info_.n_bytes             = llama_model_size(model);

    const int64_t head_dim = info_.n_head > 0 ? info_.n_embd / info_.n_head : 0;
    info_.head_dim = static_cast<int32_t>(file.get_int(info_.arch + ".attention.key_length").value_or(head_dim));

    const int64_t n_rot = file.get_int(info_.arch + ".rope.dimension_count").value_or(info_.head_dim);
    taps_               = LlamaTaps(llama_model_rope_type(model) == LLAMA_ROPE_TYPE_NORM, static_cast<int32_t>(n_rot));
}

LlamaContextPtr LlamaContext::make_context(int32_t n_ctx, int32_t n_batch, bool store) {
    const bool flash = params_.flash != FlashAttention::off;

    llama_context_params params = llama_context_default_params();
    params.n_ctx                = static_cast<uint32_t>(n_ctx);
    params.n_batch              = static_cast<uint32_t>(n_batch);
    params.n_ubatch             = static_cast<uint32_t>(n_batch);
    params.n_threads            = n_threads_;
    params.n_threads_batch      = n_threads_;
    params.flash_attn_type      = to_flash_type(params_.flash);
    // A pass without a store has nothing to save memory on.
    params.type_k = store ? to_ggml_type(params_.type_k) : flash ? GGML_TYPE_F16 : GGML_TYPE_F32;
    params.type_v = store ? to_ggml_type(params_.type_v) : flash ? GGML_TYPE_F16 : GGML_TYPE_F32;
    params.attention_type =
        info_.traits.attention == AttentionKind::full ? LLAMA_ATTENTION_TYPE_NON_CAUSAL : LLAMA_ATTENTION_TYPE_CAUSAL;
    params.swa_full          = true; // else sliding windows forget what kv_truncate goes back to
    params.cb_eval           = &LlamaContext::on_node;
    params.cb_eval_user_data = this;

    const LlamaScope scope(log_);
    LlamaContextPtr  context(llama_init_from_model(model_.get(), params));
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
        fail(printable(path_), ": libllama keeps no K/V for the architecture ", info_.arch);
    }
    kv_truncate(first);
    return stored_.get();
}

void LlamaContext::kv_truncate(int32_t first) {
    if (first < 0) {
        fail("K/V from position ", first, " on cannot be forgotten, expected 0 or more");
    }
    // Even where nothing is known to be there: a pass that failed may have stored a part of its tokens.
    if (!stored_) {
        return;
    }
    if (!llama_memory_seq_rm(llama_get_memory(stored_.get()), 0, first, -1)) {
        fail(printable(path_), ": the architecture ", info_.arch, " cannot forget a part of what it stored");
    }
    stored_n_ = std::min(stored_n_, first);
}

int32_t LlamaContext::first_position(const ForwardRequest & request) const {
    return request.positions.empty() ? 0 : request.positions[0];
}

void LlamaContext::check(const ForwardRequest & request) const {
    const size_t T = request.tokens.size();
    if (T == 0 || T > static_cast<size_t>(std::numeric_limits<int32_t>::max() / 2)) {
        fail("a forward pass got ", T, " tokens, expected 1 to 2^30");
    }
    for (const int32_t id : request.tokens) {
        if (id < 0 || id >= info_.n_vocab) {
            fail("token id ", id, " is outside the model's vocabulary of ", info_.n_vocab);
        }
    }
    if (!request.positions.empty() && request.positions.size() != T) {
        fail("a forward pass got ", request.positions.size(), " positions for ", T, " tokens");
    }
    const int64_t first = first_position(request);
    for (size_t i = 0; i < request.positions.size(); i++) {
        if (first < 0 || request.positions[i] != first + static_cast<int64_t>(i)) {
            fail("position ", request.positions[i], " at ", i,
                 ", expected one after the other from 0 or more: libllama takes no gaps");
        }
    }
    for (const int32_t row : request.rows) {
        if (row < 0 || static_cast<size_t>(row) >= T) {
            fail("output row ", row, " is outside the ", T, " tokens given");
        }
    }
    if (request.kv == KvUse::none) {
        return;
    }
    if (info_.traits.attention != AttentionKind::causal) {
        fail(printable(path_), ": K/V cannot be stored for full attention through libllama");
    }
    if (first > stored_n_) {
        fail("position ", first, " would leave a gap after the ", stored_n_, " that are stored");
    }
    if (first + static_cast<int64_t>(T) > n_ctx_) {
        fail("position ", first + static_cast<int64_t>(T) - 1, " does not fit into the context of ", n_ctx_, " (-c)");
    }
}

void LlamaContext::check_observable(const ForwardRequest & request) const {
    for (const TapPoint & point : request.taps) {
        if (point.tap != Tap::resid_post && params_.flash == FlashAttention::on) {
            fail(tap_name(point.tap, point.layer),
                 " cannot be observed through libllama with flash attention; use -fa off");
        }
        const bool rotated = point.tap == Tap::rot_q || point.tap == Tap::rot_k;
        if (rotated && request.kv == KvUse::store && params_.type_k == KvType::q8_0) {
            fail(tap_name(point.tap, point.layer), " cannot be observed while K is stored as q8_0; use f16 or f32");
        }
    }
}

// Contexts are made anew without flash attention, and what was stored is computed once more.
void LlamaContext::leave_flash() {
    params_.flash = FlashAttention::off;
    plain_.reset();
    stored_.reset();
    ForwardRequest again;
    again.tokens.assign(stored_tokens_.begin(), stored_tokens_.begin() + stored_n_);
    again.output = OutputKind::none;
    again.kv     = KvUse::store;
    stored_n_    = 0;
    if (!again.tokens.empty()) {
        forward(again);
    }
}

const ForwardResult & LlamaContext::forward(const ForwardRequest & request) {
    check(request);
    check_taps(request, info_, request.tokens.size());
    check_observable(request);
    if (params_.flash == FlashAttention::automatic &&
        std::any_of(request.taps.begin(), request.taps.end(),
                    [](const TapPoint & point) { return point.tap != Tap::resid_post; })) {
        leave_flash();
    }
    if (!request.edits.empty() || !request.probed.empty()) {
        check_can_edit(*this);
    }

    const auto    T      = static_cast<int32_t>(request.tokens.size());
    const int32_t first  = first_position(request);
    const bool    store  = request.kv == KvUse::store;
    const bool    output = request.output != OutputKind::none && !request.rows.empty();
    // The last block drops the rows that nobody asked for, but a tap shows all of them.
    const bool all_rows = std::any_of(request.taps.begin(), request.taps.end(), [this](const TapPoint & point) {
        return point.tap == Tap::resid_post && point.layer == info_.n_layer - 1;
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
    const auto   V     = static_cast<size_t>(info_.n_vocab);
    result_.logits.assign(request.output == OutputKind::logits ? n_out * V : 0, 0.0f);
    result_.summaries.assign(request.output == OutputKind::summary ? n_out : 0, {});

    taps_.begin(request, first, T, store ? first + T : T);
    for (int32_t at = 0; at < T; at += chunk) {
        compute(context, request, at, std::min(chunk, T - at));
        if (output) {
            read_rows(context, request, at, std::min(chunk, T - at));
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
    return result_;
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
    const LlamaScope scope(log_);
    int32_t          status = 0;
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
                             int32_t chunk_n) {
    const auto V = static_cast<size_t>(info_.n_vocab);
    for (size_t i = 0; i < request.rows.size(); i++) {
        const int32_t row = request.rows[i];
        if (row < chunk_first || row >= chunk_first + chunk_n) {
            continue;
        }
        const float * logits = llama_get_logits_ith(context, row - chunk_first);
        if (logits == nullptr) {
            fail_runtime(printable(path_), ": libllama gives no logits for row ", row);
        }
        if (request.output == OutputKind::summary) {
            result_.summaries[i] = summarize_row(logits, V);
        } else {
            std::copy(logits, logits + V, result_.logits.begin() + static_cast<std::ptrdiff_t>(i * V));
        }
    }
}

} // namespace buoy
