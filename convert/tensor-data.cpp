#include "tensor-data.h"

#include "buoy/error.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <thread>

namespace buoy {

namespace {

constexpr int64_t PIECE_BYTES = 16 << 20;

ggml_type source_type(const std::string & dtype) {
    return dtype == "F32" ? GGML_TYPE_F32 : dtype == "F16" ? GGML_TYPE_F16 : GGML_TYPE_BF16;
}

// Exponent bits all set: NaN or infinite.
int64_t count_not_finite(const void * data, ggml_type type, int64_t n) {
    int64_t count = 0;
    if (type == GGML_TYPE_F32) {
        const auto * values = static_cast<const float *>(data);
        for (int64_t i = 0; i < n; ++i) {
            uint32_t bits;
            std::memcpy(&bits, values + i, sizeof(bits));
            count += (bits & 0x7f800000U) == 0x7f800000U ? 1 : 0;
        }
    } else {
        const uint16_t exponent = type == GGML_TYPE_F16 ? 0x7c00 : 0x7f80;
        const auto *   values   = static_cast<const uint16_t *>(data);
        for (int64_t i = 0; i < n; ++i) {
            count += (values[i] & exponent) == exponent ? 1 : 0;
        }
    }
    return count;
}

// Row of the source that becomes row i: within a head of n rows, the two halves are interleaved.
int64_t source_row(int64_t i, int64_t n_group) {
    if (n_group == 0) {
        return i;
    }
    const int64_t in_head = i % n_group;
    return i - in_head + in_head / 2 + (in_head % 2) * (n_group / 2);
}

// Converts single rows. Each thread has its own.
class RowConverter {
public:
    RowConverter(ggml_type from, ggml_type to, int64_t n_cols)
        : from_(from), to_(to), n_cols_(n_cols), row_(static_cast<size_t>(n_cols)) {}

    void convert(const char * from, char * to) {
        const int64_t bad = count_not_finite(from, from_, n_cols_);
        health_.n_not_finite += bad;
        if (from_ == to_) {
            std::memcpy(to, from, ggml_row_size(to_, n_cols_));
            return;
        }
        const float * values = to_float(from);
        switch (to_) {
            case GGML_TYPE_F32: std::memcpy(to, values, ggml_row_size(to_, n_cols_)); break;
            case GGML_TYPE_F16:
                ggml_fp32_to_fp16_row(values, reinterpret_cast<ggml_fp16_t *>(to), n_cols_);
                health_.n_overflow += count_not_finite(to, to_, n_cols_) - bad;
                break;
            case GGML_TYPE_BF16:
                ggml_fp32_to_bf16_row_ref(values, reinterpret_cast<ggml_bf16_t *>(to), n_cols_);
                health_.n_overflow += count_not_finite(to, to_, n_cols_) - bad;
                break;
            default: ggml_quantize_chunk(to_, values, to, 0, 1, n_cols_, nullptr); break;
        }
    }

    const TensorHealth & health() const { return health_; }

private:
    const float * to_float(const char * from) {
        if (from_ == GGML_TYPE_F32) {
            return reinterpret_cast<const float *>(from);
        }
        if (from_ == GGML_TYPE_F16) {
            ggml_fp16_to_fp32_row(reinterpret_cast<const ggml_fp16_t *>(from), row_.data(), n_cols_);
        } else {
            ggml_bf16_to_fp32_row(reinterpret_cast<const ggml_bf16_t *>(from), row_.data(), n_cols_);
        }
        return row_.data();
    }

    ggml_type          from_;
    ggml_type          to_;
    int64_t            n_cols_;
    std::vector<float> row_;
    TensorHealth       health_;
};

// Runs work(thread, first, end) over an even split of n rows.
template <typename Work> void split_rows(int64_t n, int n_threads, const Work & work) {
    std::vector<std::thread>        threads;
    std::vector<std::exception_ptr> errors(static_cast<size_t>(n_threads));

    const auto run = [&](int t) {
        try {
            work(t, n * t / n_threads, n * (t + 1) / n_threads);
        } catch (...) {
            errors[static_cast<size_t>(t)] = std::current_exception();
        }
    };
    for (int t = 1; t < n_threads; ++t) {
        threads.emplace_back(run, t);
    }
    run(0);
    for (std::thread & thread : threads) {
        thread.join();
    }
    for (const std::exception_ptr & error : errors) {
        if (error) {
            std::rethrow_exception(error);
        }
    }
}

} // namespace

TensorHealth stream_tensor(const PlannedTensor & tensor, const Safetensors & source, int n_threads,
                           const ByteSink & sink) {
    if (tensor.source == nullptr) {
        sink(tensor.values.data(), tensor.values.size() * sizeof(float));
        return {};
    }
    const ggml_type from     = source_type(tensor.source->dtype);
    const int64_t   row_from = static_cast<int64_t>(ggml_row_size(from, tensor.n_cols));
    const int64_t   row_to   = static_cast<int64_t>(ggml_row_size(tensor.type, tensor.n_cols));

    // Whole heads per piece, so that reordering never looks outside it.
    const int64_t step    = std::max<int64_t>(tensor.n_group, 1);
    const int64_t n_piece = std::min(tensor.n_rows, std::max<int64_t>(PIECE_BYTES / row_from / step, 1) * step);

    std::vector<char>         raw(static_cast<size_t>(n_piece * row_from));
    std::vector<char>         done(static_cast<size_t>(n_piece * row_to));
    const int                 n_used = n_piece * row_from < (1 << 20) ? 1 : n_threads;
    std::vector<RowConverter> converters(static_cast<size_t>(n_used), RowConverter(from, tensor.type, tensor.n_cols));

    for (int64_t first = 0; first < tensor.n_rows; first += n_piece) {
        const int64_t n = std::min(n_piece, tensor.n_rows - first);
        source.read(*tensor.source, static_cast<uint64_t>(first * row_from), raw.data(),
                    static_cast<size_t>(n * row_from));
        split_rows(n, n_used, [&](int t, int64_t row, int64_t end) {
            for (; row < end; ++row) {
                converters[static_cast<size_t>(t)].convert(raw.data() + source_row(row, tensor.n_group) * row_from,
                                                           done.data() + row * row_to);
            }
        });
        sink(done.data(), static_cast<size_t>(n * row_to));
    }

    TensorHealth health;
    for (const RowConverter & converter : converters) {
        health.n_not_finite += converter.health().n_not_finite;
        health.n_overflow += converter.health().n_overflow;
    }
    return health;
}

} // namespace buoy
