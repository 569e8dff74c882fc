#include "graph/kv-store.h"

#include "base/fail.h"
#include "model/hparams.h"

#include <algorithm>
#include <map>

namespace buoy {

ggml_type kv_ggml_type(KvType type) {
    switch (type) {
        case KvType::f32: return GGML_TYPE_F32;
        case KvType::f16: return GGML_TYPE_F16;
        case KvType::q8_0: return GGML_TYPE_Q8_0;
    }
    return GGML_TYPE_F16;
}

namespace {

// Systems that overcommit hand out memory they don't have and kill who uses it, so what can't fit is refused before.
void check_memory(ggml_backend_dev_t device, ggml_context * ctx, int32_t n_ctx) {
    size_t needed = 0, free = 0, total = 0;
    for (ggml_tensor * t = ggml_get_first_tensor(ctx); t != nullptr; t = ggml_get_next_tensor(ctx, t)) {
        needed += ggml_nbytes(t);
    }
    ggml_backend_dev_memory(device, &free, &total);
    if (total > 0 && needed > total) {
        fail_runtime("out of memory: the K/V store of ", n_ctx, " positions needs ", needed >> 20, " MiB, ",
                     ggml_backend_dev_name(device), " has ", total >> 20, "; a smaller context (-c) needs less");
    }
}

} // namespace

KvStore::KvStore(const HParams & hp, const std::vector<ggml_backend_dev_t> & devices, const ContextParams & params,
                 int32_t n_ctx)
    : head_dim_(hp.head_dim), n_head_kv_(hp.n_head_kv), n_ctx_(n_ctx), filled_(static_cast<size_t>(n_ctx), false) {
    for (KvType type : {params.type_k, params.type_v}) {
        if (hp.head_dim % ggml_blck_size(kv_ggml_type(type)) != 0) {
            fail("the K/V store can't be q8_0 for this model: its head dimension ", hp.head_dim,
                 " is not a multiple of 32");
        }
    }
    std::map<ggml_backend_dev_t, ggml_context *> contexts;
    for (int32_t il = 0; il < hp.n_layer; il++) {
        ggml_backend_dev_t device = devices[static_cast<size_t>(il)];
        ggml_context *&    ctx    = contexts[device];
        if (ctx == nullptr) {
            ctx = ggml_init({ggml_tensor_overhead() * static_cast<size_t>(hp.n_layer) * 2, nullptr, true});
            contexts_.emplace_back(device, ctx);
        }
        k_.push_back(
            ggml_new_tensor_3d(ctx, kv_ggml_type(params.type_k), head_dim_ * n_head_kv_, n_ctx, params.n_streams));
        v_.push_back(
            ggml_new_tensor_3d(ctx, kv_ggml_type(params.type_v), head_dim_ * n_head_kv_, n_ctx, params.n_streams));
    }
    for (const auto & [device, ctx] : contexts_) {
        check_memory(device, ctx.get(), n_ctx);
    }
}

void KvStore::ensure_memory() {
    for (size_t i = buffers_.size(); i < contexts_.size(); i++) {
        const auto & [device, ctx] = contexts_[i];
        ggml_backend_buffer_ptr buffer(
            ggml_backend_alloc_ctx_tensors_from_buft(ctx.get(), ggml_backend_dev_buffer_type(device)));
        if (!buffer) {
            fail_runtime("out of memory: ", ggml_backend_dev_name(device), " can't hold the K/V store of ", n_ctx_,
                         " positions; a smaller context (-c) needs less");
        }
        // a masked key still takes part in 0·k, so never-written cells must hold numbers
        ggml_backend_buffer_clear(buffer.get(), 0);
        buffers_.push_back(std::move(buffer));
    }
}

int32_t KvStore::n_filled_with(const std::vector<int32_t> & positions) const {
    int32_t n = n_filled_;
    for (int32_t position : positions) {
        n += is_filled(position) ? 0 : 1;
    }
    return n;
}

size_t KvStore::n_bytes() const {
    size_t sum = 0;
    for (const auto & buffer : buffers_) {
        sum += ggml_backend_buffer_get_size(buffer.get());
    }
    return sum;
}

void KvStore::fill(const std::vector<int32_t> & positions) {
    n_filled_ = n_filled_with(positions);
    for (int32_t position : positions) {
        filled_[static_cast<size_t>(position)] = true;
        length_                                = std::max(length_, position + 1);
    }
}

void KvStore::truncate(int32_t first) {
    for (int32_t position = std::max(first, 0); position < length_; position++) {
        n_filled_ -= is_filled(position) ? 1 : 0;
        filled_[static_cast<size_t>(position)] = false;
    }
    while (length_ > 0 && !filled_[static_cast<size_t>(length_ - 1)]) {
        length_--;
    }
}

ggml_tensor * KvStore::write(ggml_context * ctx, ggml_tensor * cells_of, ggml_tensor * x, ggml_tensor * cells) const {
    const int64_t S = cells_of->ne[2];
    x               = ggml_reshape_3d(ctx, x, head_dim_ * n_head_kv_, x->ne[2] / S, S); // [Hkv·D, T, S]
    return ggml_set_rows(ctx, cells_of, x, cells);
}

ggml_tensor * KvStore::read(ggml_context * ctx, ggml_tensor * cells_of, int64_t n_kv) const {
    return ggml_view_4d(ctx, cells_of, head_dim_, n_kv, n_head_kv_, cells_of->ne[2], cells_of->nb[1],
                        ggml_row_size(cells_of->type, head_dim_), cells_of->nb[2], 0);
}

} // namespace buoy
