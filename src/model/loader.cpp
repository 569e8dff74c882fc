#include "model/loader.h"

#include "base/split-work.h"
#include "buoy/message.h"
#include "model/unpack.h"

#include <algorithm>
#include <cstring>

namespace buoy {

namespace {

constexpr uint64_t tensor_alignment = 32;    // GGUF's default, and what ggml's CPU buffers promise
constexpr uint64_t page_alignment   = 16384; // the largest page size a device may insist on

std::string shape_text(const std::vector<int64_t> & shape) {
    std::string text = "[";
    for (size_t i = 0; i < shape.size(); i++) {
        text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
    }
    return text + "]";
}

std::vector<int64_t> tensor_shape(const GgufTensor & tensor) {
    return {tensor.ne.begin(), tensor.ne.begin() + tensor.n_dims};
}

// Shapes agree when they differ at most by trailing ones.
bool same_shape(const GgufTensor & tensor, const std::vector<int64_t> & shape) {
    for (size_t i = 0; i < tensor.ne.size(); i++) {
        if (tensor.ne[i] != (i < shape.size() ? shape[i] : 1)) {
            return false;
        }
    }
    return true;
}

// A stand-in for the operation a weight is used in, to ask a device whether it can do that.
ggml_tensor * sample_op(ggml_context * ctx, ggml_tensor * w, WeightUse use) {
    constexpr int64_t n_rows = 32;
    switch (use) {
        case WeightUse::lookup: return ggml_get_rows(ctx, w, ggml_new_tensor_1d(ctx, GGML_TYPE_I32, n_rows));
        case WeightUse::matmul: return ggml_mul_mat(ctx, w, ggml_new_tensor_2d(ctx, GGML_TYPE_F32, w->ne[0], n_rows));
        case WeightUse::experts:
            return ggml_mul_mat_id(ctx, w, ggml_new_tensor_3d(ctx, GGML_TYPE_F32, w->ne[0], 1, n_rows),
                                   ggml_new_tensor_2d(ctx, GGML_TYPE_I32, 1, n_rows));
        case WeightUse::multiply: return ggml_mul(ctx, ggml_new_tensor_2d(ctx, GGML_TYPE_F32, w->ne[0], n_rows), w);
        case WeightUse::add: return ggml_add(ctx, ggml_new_tensor_2d(ctx, GGML_TYPE_F32, w->ne[0], n_rows), w);
        case WeightUse::rope:
            return ggml_rope_ext(ctx, ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 2 * w->ne[0], 1, n_rows),
                                 ggml_new_tensor_1d(ctx, GGML_TYPE_I32, n_rows), w, static_cast<int>(2 * w->ne[0]), 0,
                                 0, 10000.0f, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f);
    }
    return nullptr;
}

bool is_product(WeightUse use) { return use == WeightUse::matmul || use == WeightUse::experts; }

ProductWeights product_weights(const ggml_tensor & w, WeightUse use) {
    return {w.type, w.ne[0], use == WeightUse::experts};
}

// ggml's AMX products (v0.5.0) of more than 32 rows with weights of a single block of columns are wrong: their sums begin with whatever
// the tiles held.
bool is_wrong_for(ggml_backend_buffer_type_t buft, const ggml_tensor & w) {
    return std::strcmp(ggml_backend_buft_name(buft), "AMX") == 0 && w.ne[0] == ggml_blck_size(w.type);
}

} // namespace

bool is_matrix_type(ggml_type type) {
    const bool is_float = type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
    return is_float || (ggml_is_quantized(type) && type != GGML_TYPE_Q8_1 && type != GGML_TYPE_Q8_K);
}

WeightLoader::WeightLoader(const GgufFile & file, const Placement & placement, const ModelParams & params, bool unpack,
                           const KernelChoice & products)
    : file_(file), placement_(placement), use_mmap_(params.use_mmap), use_repack_(params.use_repack), unpack_(unpack),
      products_(products), n_threads_(thread_count(params.n_threads)) {}

const GgufTensor * WeightLoader::look_up(const WeightSpec & spec) const {
    const GgufTensor * tensor = file_.find_tensor(spec.name);
    if (tensor == nullptr) {
        if (spec.presence == Presence::required) {
            fail(printable(file_.paths()[0]), ": tensor ", in_quotes(spec.name), ": missing, expected shape ",
                 shape_text(spec.shape));
        }
        return nullptr;
    }
    const auto fail_tensor = [&](const std::string & expected, const std::string & found) {
        fail(printable(file_.paths()[static_cast<size_t>(tensor->file)]), ": tensor ", in_quotes(spec.name),
             ": expected ", expected, ", found ", found);
    };
    if (!same_shape(*tensor, spec.shape)) {
        fail_tensor("shape " + shape_text(spec.shape), shape_text(tensor_shape(*tensor)));
    }
    // the backends' element-wise kernels want F32, and every converter writes it
    const bool is_matrix =
        spec.use == WeightUse::matmul || spec.use == WeightUse::lookup || spec.use == WeightUse::experts;
    if (!is_matrix && tensor->type != GGML_TYPE_F32) {
        fail_tensor("type f32", ggml_type_name(tensor->type));
    }
    if (is_matrix && !is_matrix_type(tensor->type)) {
        fail_tensor("type f32, f16, bf16 or one of the quantised", ggml_type_name(tensor->type));
    }
    return tensor;
}

ggml_tensor * WeightLoader::get(const WeightSpec & spec) {
    const GgufTensor * source = look_up(spec);
    return source == nullptr ? nullptr : declare(source, 0, spec.shape, spec.use, spec.layer);
}

bool WeightLoader::has(const std::string & name, Presence) const { return file_.find_tensor(name) != nullptr; }

Linear WeightLoader::part(const std::string & base, int64_t n_in, int64_t n_rows, const Part & part, int32_t layer) {
    const GgufTensor * w    = look_up({base + ".weight", {n_in, n_rows}, WeightUse::matmul, Presence::required, layer});
    const GgufTensor * bias = look_up({base + ".bias", {n_rows}, WeightUse::add, Presence::optional, layer});

    Linear linear;
    linear.w = declare(w, ggml_row_size(w->type, n_in) * static_cast<size_t>(part.first), {n_in, part.n},
                       WeightUse::matmul, layer);
    if (bias != nullptr) {
        linear.bias = declare(bias, sizeof(float) * static_cast<size_t>(part.first), {part.n}, WeightUse::add, layer);
    }
    return linear;
}

ggml_backend_buffer_type_t WeightLoader::choose_buffer(const std::string & name, const ggml_tensor * like,
                                                       WeightUse use, int32_t il) const {
    const bool repack     = use_repack_ && is_product(use) && !products_.keeps_stored(product_weights(*like, use));
    const auto candidates = placement_.buffer_types(name, il, repack);
    for (const auto & [device, buft] : candidates) {
        if (is_wrong_for(buft, *like)) {
            continue;
        }
        ggml_context_ptr ctx{ggml_init({ggml_tensor_overhead() * 8, nullptr, true})};
        ggml_tensor *    w  = ggml_dup_tensor(ctx.get(), like);
        ggml_tensor *    op = sample_op(ctx.get(), w, use);
        // repacked layouts are recognised by the buffer a weight is in, so it gets an empty one for the question
        ggml_backend_buffer_ptr empty{ggml_backend_buft_alloc_buffer(buft, 0)};
        w->buffer = empty.get();
        if (ggml_backend_dev_supports_op(device, op)) {
            return buft;
        }
    }
    return candidates.back().second;
}

ggml_context * WeightLoader::context(ggml_backend_buffer_type_t buft) {
    ggml_context_ptr & ctx = contexts_[buft];
    if (!ctx) {
        // each tensor once as it is or in three parts, and once more for a tied head or another device's RoPE factors
        ctx.reset(ggml_init({ggml_tensor_overhead() * (file_.tensors().size() * 4 + 8), nullptr, true}));
    }
    return ctx.get();
}

ggml_tensor * WeightLoader::declare(const GgufTensor * source, uint64_t skip, const std::vector<int64_t> & shape,
                                    WeightUse use, int32_t il) {
    ggml_context_ptr scratch{ggml_init({ggml_tensor_overhead() * 2, nullptr, true})};
    const bool       as_is  = products_.can_be_ours({source->type, shape.begin()[0], use == WeightUse::experts});
    const bool       as_f16 = unpack_ && use == WeightUse::matmul && ggml_is_quantized(source->type) && !as_is;
    const ggml_type  type   = as_f16 ? GGML_TYPE_F16 : source->type;
    ggml_tensor *    like   = ggml_new_tensor(scratch.get(), type, static_cast<int>(shape.size()), shape.data());
    ggml_backend_buffer_type_t buft = choose_buffer(source->name, like, use, il);

    if (is_product(use)) {
        const char * layout = ggml_backend_buft_is_host(buft) ? nullptr : ggml_backend_buft_name(buft);
        product_texts_.insert(products_.text(product_weights(*like, use), layout));
    }

    ggml_tensor *& tensor = declared_[{source, skip, buft, type}];
    if (tensor == nullptr) {
        tensor = ggml_dup_tensor(context(buft), like);
        ggml_set_name(tensor, source->name.c_str());
        pending_[buft].push_back({tensor, source, skip});
    }
    return tensor;
}

// Lets the weights of one buffer type point into the mapped files. What can't (alignment, device) is left for place_copied.
void WeightLoader::place_mapped(ggml_backend_buffer_type_t buft, WeightMemory & memory) const {
    const auto &           devices = placement_.devices();
    const auto             device  = std::find_if(devices.begin(), devices.end(),
                                                  [&](ggml_backend_dev_t dev) { return ggml_backend_dev_buffer_type(dev) == buft; });
    ggml_backend_dev_props props{};
    if (device != devices.end()) {
        ggml_backend_dev_get_props(*device, &props);
    }
    if (!props.caps.buffer_from_host_ptr) {
        return;
    }
    for (int index = 0; index < static_cast<int>(file_.paths().size()); index++) {
        std::vector<const Pending *> group;
        uint64_t                     first = UINT64_MAX, last = 0;
        size_t                       largest = 0;
        for (const Pending & p : pending_.at(buft)) {
            const uint64_t at = p.source->offset + p.skip;
            if (p.source->file == index && at % tensor_alignment == 0 && p.tensor->type == p.source->type) {
                group.push_back(&p);
                first   = std::min(first, at / page_alignment * page_alignment);
                last    = std::max(last, at + ggml_nbytes(p.tensor));
                largest = std::max(largest, ggml_nbytes(p.tensor));
            }
        }
        if (group.empty()) {
            continue;
        }
        FileMapping mapping = file_.file(index).map();
        auto * base = const_cast<uint8_t *>(mapping.data()); // ggml has one pointer type; weights are never written
        ggml_backend_buffer_ptr buffer{
            ggml_backend_dev_buffer_from_host_ptr(*device, base + first, last - first, largest)};
        if (!buffer) {
            continue;
        }
        for (const Pending * p : group) {
            ggml_backend_tensor_alloc(buffer.get(), p->tensor, base + p->source->offset + p->skip);
        }
        memory.buffers.push_back(std::move(buffer));
        memory.mappings.push_back(std::move(mapping));
    }
}

void WeightLoader::place_copied(ggml_backend_buffer_type_t buft, WeightMemory & memory,
                                const std::function<void()> & on_tensor) const {
    uint64_t                     needed = 0;
    std::vector<const Pending *> group;
    for (const Pending & p : pending_.at(buft)) {
        if (p.tensor->buffer == nullptr) {
            group.push_back(&p);
            needed += ggml_nbytes(p.tensor);
        }
    }
    if (group.empty()) {
        return;
    }
    ggml_backend_buffer_ptr buffer{ggml_backend_alloc_ctx_tensors_from_buft(contexts_.at(buft).get(), buft)};
    if (!buffer) {
        fail_runtime(printable(file_.paths()[0]), ": out of memory: the weights need ", (needed >> 20) + 1, " MiB of ",
                     ggml_backend_buft_name(buft));
    }
    std::vector<uint8_t>     staging;
    std::vector<ggml_fp16_t> unpacked;
    for (const Pending * p : group) {
        const int64_t n_rows = ggml_nrows(p->tensor);
        staging.resize(ggml_row_size(p->source->type, p->tensor->ne[0]) * static_cast<size_t>(n_rows));
        file_.file(p->source->file).read(p->source->offset + p->skip, staging.data(), staging.size());
        if (p->tensor->type == p->source->type) {
            ggml_backend_tensor_set(p->tensor, staging.data(), 0, staging.size());
        } else {
            unpacked.resize(static_cast<size_t>(ggml_nelements(p->tensor)));
            unpack_rows(p->source->type, staging.data(), unpacked.data(), p->tensor->ne[0], n_rows, n_threads_);
            ggml_backend_tensor_set(p->tensor, unpacked.data(), 0, ggml_nbytes(p->tensor));
        }
        on_tensor();
    }
    memory.buffers.push_back(std::move(buffer));
}

WeightMemory WeightLoader::load(const ProgressCallback & progress) {
    WeightMemory memory;
    size_t       n_done = 0;
    const auto   report = [&] {
        if (progress && !progress(static_cast<float>(n_done) / static_cast<float>(declared_.size()))) {
            fail_runtime(printable(file_.paths()[0]), ": loading was cancelled");
        }
    };
    for (const auto & [buft, group] : pending_) {
        if (use_mmap_) {
            place_mapped(buft, memory);
        }
        n_done += static_cast<size_t>(
            std::count_if(group.begin(), group.end(), [](const Pending & p) { return p.tensor->buffer != nullptr; }));
        report();
        place_copied(buft, memory, [&] {
            n_done++;
            report();
        });
    }
    for (ggml_backend_buffer_ptr & buffer : memory.buffers) {
        ggml_backend_buffer_set_usage(buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }
    for (const auto & entry : declared_) {
        memory.tensors.push_back(entry.second);
    }
    for (auto & entry : contexts_) {
        memory.contexts.push_back(std::move(entry.second));
    }
    file_.check_size();
    return memory;
}

} // namespace buoy
