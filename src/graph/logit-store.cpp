#include "graph/logit-store.h"

#include "buoy/message.h"

#include <ggml-alloc.h>
#include <ggml-backend.h>

namespace buoy {

bool LogitStore::ensure_memory(int32_t sequence, int64_t n_rows) {
    Sequence & seq = of(sequence);
    if (seq.tensor != nullptr && seq.tensor->ne[1] >= n_rows) {
        return false;
    }
    seq.buffer.reset();
    seq.ctx.reset(ggml_init({ggml_tensor_overhead(), nullptr, true}));
    seq.tensor = ggml_new_tensor_2d(seq.ctx.get(), GGML_TYPE_F32, n_vocab_, n_rows);
    seq.buffer.reset(ggml_backend_alloc_ctx_tensors_from_buft(
        seq.ctx.get(), ggml_backend_dev_buffer_type(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU))));
    seq.n_kept = 0;
    if (!seq.buffer) {
        seq.tensor = nullptr;
        fail_runtime("out of memory: the logits of a canvas of ", n_rows, " tokens could not be allocated");
    }
    return true;
}

size_t LogitStore::n_bytes() const {
    size_t sum = 0;
    for (const Sequence & seq : sequences_) {
        sum += seq.buffer ? ggml_backend_buffer_get_size(seq.buffer.get()) : 0;
    }
    return sum;
}

ggml_tensor * LogitStore::rows(ggml_context * ctx, int32_t sequence, int64_t n) const {
    ggml_tensor * tensor = of(sequence).tensor;
    return ggml_view_2d(ctx, tensor, tensor->ne[0], n, tensor->nb[1], 0);
}

void LogitStore::write(int32_t sequence, const std::vector<float> & logits) {
    ggml_backend_tensor_set(of(sequence).tensor, logits.data(), 0, logits.size() * sizeof(float));
    set_kept(sequence, static_cast<int64_t>(logits.size()) / n_vocab_);
}

} // namespace buoy
