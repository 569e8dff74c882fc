#include "graph/kv-store.h"

#include "buoy/message.h"
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
                     ggml_backend_dev_name(device), " has ", total >> 20, "; a shorter context (`n_ctx`) needs less");
    }
}

} // namespace

KvStore::KvStore(const HParams & hp, const std::vector<ggml_backend_dev_t> & devices, const ContextParams & params,
                 int32_t n_ctx)
    : n_ctx_(n_ctx) {
    if (params.n_sequences < 1) {
        fail("the number of sequences is ", params.n_sequences, ", expected 1 or more");
    }
    for (const LayerParams & layer : hp.layers) {
        for (KvType type : {params.type_k, params.type_v}) {
            if (layer.head_dim % ggml_blck_size(kv_ggml_type(type)) != 0) {
                fail("the K/V store can't be q8_0 for this model: its head dimension ", layer.head_dim,
                     " is not a multiple of 32");
            }
        }
    }
    sequences_.assign(static_cast<size_t>(params.n_sequences), {0, 0, std::vector<bool>(static_cast<size_t>(n_ctx))});
    const int64_t                                n_cells = int64_t(n_ctx) * params.n_sequences;
    std::map<ggml_backend_dev_t, ggml_context *> contexts;
    for (int32_t il = 0; il < hp.n_layer; il++) {
        ggml_backend_dev_t device = devices[static_cast<size_t>(il)];
        ggml_context *&    ctx    = contexts[device];
        if (ctx == nullptr) {
            ctx = ggml_init({ggml_tensor_overhead() * static_cast<size_t>(hp.n_layer) * 2, nullptr, true});
            contexts_.emplace_back(device, ctx);
        }
        const auto of_type = [&, &layer = hp.layer(il)](KvType type) {
            return ggml_new_tensor_3d(ctx, kv_ggml_type(type), layer.head_dim, n_cells, layer.n_head_kv);
        };
        k_.push_back(of_type(params.type_k));
        v_.push_back(of_type(params.type_v));
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
                         " positions; a shorter context (`n_ctx`) needs less");
        }
        // a masked key still takes part in 0·k, so never-written cells must hold numbers
        ggml_backend_buffer_clear(buffer.get(), 0);
        buffers_.push_back(std::move(buffer));
    }
}

int32_t KvStore::n_filled_with(int32_t sequence, const std::vector<int32_t> & positions) const {
    int32_t n = of(sequence).n_filled;
    for (int32_t position : positions) {
        n += is_filled(sequence, position) ? 0 : 1;
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

void KvStore::fill(int32_t sequence, const std::vector<int32_t> & positions) {
    Sequence & seq = of(sequence);
    seq.n_filled   = n_filled_with(sequence, positions);
    for (int32_t position : positions) {
        seq.filled[static_cast<size_t>(position)] = true;
        seq.length                                = std::max(seq.length, position + 1);
    }
}

void KvStore::truncate(int32_t sequence, int32_t first) {
    Sequence & seq = of(sequence);
    for (int32_t position = std::max(first, 0); position < seq.length; position++) {
        seq.n_filled -= is_filled(sequence, position) ? 1 : 0;
        seq.filled[static_cast<size_t>(position)] = false;
    }
    while (seq.length > 0 && !seq.filled[static_cast<size_t>(seq.length - 1)]) {
        seq.length--;
    }
}

ggml_tensor * KvStore::write(ggml_context * ctx, ggml_tensor * cells_of, ggml_tensor * x, ggml_tensor * cells) const {
    return ggml_set_rows(ctx, cells_of, ggml_permute(ctx, x, 0, 2, 1, 3), cells);
}

ggml_tensor * KvStore::read(ggml_context * ctx, ggml_tensor * cells_of, int32_t sequence, int64_t n_kv) const {
    return ggml_view_3d(ctx, cells_of, cells_of->ne[0], n_kv, cells_of->ne[2], cells_of->nb[1], cells_of->nb[2],
                        cells_of->nb[1] * static_cast<size_t>(cell(sequence, 0)));
}

} // namespace buoy
