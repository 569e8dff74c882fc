#include "graph/row-store.h"

#include "buoy/message.h"
#include "model/hparams.h"

#include <ggml-alloc.h>

namespace buoy {

RowStore::RowStore(const HParams & hp, std::vector<ggml_backend_dev_t> devices, int32_t n_ctx, int32_t n_sequences)
    : hp_(hp), devices_(std::move(devices)), n_ctx_(n_ctx), lengths_(static_cast<size_t>(n_sequences)) {}

int64_t RowStore::width(Kind kind, int32_t il) const {
    const LayerParams & p = hp_.layer(il);
    return kind == Kind::query ? int64_t(p.head_dim) * p.n_head : hp_.n_embd;
}

void RowStore::ensure_memory(Kind kind) {
    Rows & rows = kinds_[static_cast<size_t>(kind)];
    for (auto il = static_cast<int32_t>(rows.layers.size()); il < hp_.n_layer; il++) {
        ggml_backend_dev_t      device = devices_[static_cast<size_t>(il)];
        ggml_context_ptr        ctx(ggml_init({ggml_tensor_overhead(), nullptr, true}));
        const int64_t           n_cells = int64_t(n_ctx_) * static_cast<int64_t>(lengths_.size());
        ggml_tensor *           tensor  = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, width(kind, il), n_cells);
        ggml_backend_buffer_ptr buffer(
            ggml_backend_alloc_ctx_tensors_from_buft(ctx.get(), ggml_backend_dev_buffer_type(device)));
        if (!buffer) {
            fail_runtime("out of memory: ", ggml_backend_dev_name(device),
                         " can't hold what an adaptive cache keeps of ", n_ctx_,
                         " positions; a shorter context (`n_ctx`) needs less");
        }
        ggml_backend_buffer_clear(buffer.get(), 0);
        rows.contexts.push_back(std::move(ctx));
        rows.buffers.push_back(std::move(buffer));
        rows.layers.push_back(tensor);
    }
}

size_t RowStore::n_bytes() const {
    size_t sum = 0;
    for (const Rows & rows : kinds_) {
        for (const auto & buffer : rows.buffers) {
            sum += ggml_backend_buffer_get_size(buffer.get());
        }
    }
    return sum;
}

ggml_tensor * RowStore::rows(ggml_context * ctx, Kind kind, int32_t il, int32_t sequence, int64_t n) const {
    ggml_tensor * tensor = all(kind, il);
    return ggml_view_2d(ctx, tensor, tensor->ne[0], n, tensor->nb[1],
                        tensor->nb[1] * static_cast<size_t>(sequence) * static_cast<size_t>(n_ctx_));
}

} // namespace buoy
