#include "tensor-data.h"

#include "base/split-work.h"
#include "buoy/error.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace buoy {

namespace {

constexpr int64_t PIECE_BYTES = 16 << 20;

// Exponent bits all set: NaN or infinite.
template <typename Bits> int64_t count_set(const void * data, Bits exponent, int64_t n) {
    const auto * at    = static_cast<const char *>(data);
    int64_t      count = 0;
    for (int64_t i = 0; i < n; ++i) {
        Bits bits;
        std::memcpy(&bits, at + i * static_cast<int64_t>(sizeof(Bits)), sizeof(Bits));
        count += (bits & exponent) == exponent ? 1 : 0;
    }
    return count;
}

int64_t count_not_finite(const void * data, ggml_type type, int64_t n) {
    switch (type) {
        case GGML_TYPE_F32: return count_set<uint32_t>(data, 0x7f800000U, n);
        case GGML_TYPE_F16: return count_set<uint16_t>(data, 0x7c00, n);
        case GGML_TYPE_BF16: return count_set<uint16_t>(data, 0x7f80, n);
        default: return 0; // blocks
    }
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
    RowConverter(const PlannedTensor & tensor)
        : from_(tensor.source_type()), to_(tensor.type), n_cols_(tensor.n_cols),
          row_(static_cast<size_t>(tensor.n_cols)) {}

    void convert(const TensorSource & source, const char * from, int64_t i, const float * imatrix, char * to) {
        if (from_ == to_ && !source.scales) {
            health_.n_not_finite += count_not_finite(from, from_, n_cols_);
            std::memcpy(to, from, ggml_row_size(to_, n_cols_));
            return;
        }
        decode_row(source, from, i, n_cols_, row_.data());
        const int64_t bad = count_not_finite(row_.data(), GGML_TYPE_F32, n_cols_);
        health_.n_not_finite += bad;
        switch (to_) {
            case GGML_TYPE_F32: std::memcpy(to, row_.data(), ggml_row_size(to_, n_cols_)); break;
            case GGML_TYPE_F16:
                ggml_fp32_to_fp16_row(row_.data(), reinterpret_cast<ggml_fp16_t *>(to), n_cols_);
                health_.n_overflow += count_not_finite(to, to_, n_cols_) - bad;
                break;
            case GGML_TYPE_BF16:
                ggml_fp32_to_bf16_row_ref(row_.data(), reinterpret_cast<ggml_bf16_t *>(to), n_cols_);
                health_.n_overflow += count_not_finite(to, to_, n_cols_) - bad;
                break;
            default: ggml_quantize_chunk(to_, row_.data(), to, 0, 1, n_cols_, imatrix); break;
        }
    }

    const TensorHealth & health() const { return health_; }

private:
    ggml_type          from_;
    ggml_type          to_;
    int64_t            n_cols_;
    std::vector<float> row_;
    TensorHealth       health_;
};

// A tensor's rows in pieces: read(part, first row of the part, rows, first row of the tensor).
void for_pieces(const PlannedTensor &                                                        tensor,
                const std::function<void(const TensorSource &, int64_t, int64_t, int64_t)> & read) {
    const int64_t row = static_cast<int64_t>(tensor.parts.front().row_size(tensor.n_cols));
    // Whole heads per piece, so that reordering never looks outside it.
    const int64_t step    = std::max<int64_t>(tensor.n_group, 1);
    const int64_t n_each  = tensor.n_rows / static_cast<int64_t>(tensor.parts.size());
    const int64_t n_piece = std::max<int64_t>(PIECE_BYTES / std::max<int64_t>(row, 1) / step, 1) * step;
    int64_t       at      = 0;
    for (const TensorSource & part : tensor.parts) {
        for (int64_t first = 0, n = 0; first < n_each; first += n, at += n) {
            n = std::min(n_piece, n_each - first);
            read(part, first, n, at);
        }
    }
}

// Where input and output are the same bytes, they are only looked at.
TensorHealth copy_tensor(const PlannedTensor & tensor, int n_threads, std::vector<char> & buffer,
                         const PieceSink & sink) {
    std::vector<int64_t> bad(static_cast<size_t>(n_threads));
    for_pieces(tensor, [&](const TensorSource & part, int64_t first, int64_t n, int64_t) {
        const size_t row = part.row_size(tensor.n_cols);
        buffer.resize(static_cast<size_t>(n) * row);
        split_work(n, buffer.size() < (1 << 20) ? 1 : n_threads, [&](int t, int64_t begin, int64_t end) {
            char * at = buffer.data() + static_cast<size_t>(begin) * row;
            part.read(first + begin, end - begin, tensor.n_cols, at);
            bad[static_cast<size_t>(t)] += count_not_finite(at, part.type, (end - begin) * tensor.n_cols);
        });
        buffer = sink(std::move(buffer));
    });
    TensorHealth health;
    for (const int64_t count : bad) {
        health.n_not_finite += count;
    }
    return health;
}

} // namespace

TensorHealth stream_tensor(const PlannedTensor & tensor, const float * imatrix, int n_threads,
                           std::vector<char> & buffer, const PieceSink & sink) {
    if (tensor.parts.empty()) {
        const auto * bytes = reinterpret_cast<const char *>(tensor.values.data());
        sink(std::vector<char>(bytes, bytes + tensor.values.size() * sizeof(float)));
        return {};
    }
    if (tensor.type == tensor.source_type() && tensor.n_group == 0 && !tensor.parts.front().scales) {
        return copy_tensor(tensor, n_threads, buffer, sink);
    }
    const size_t              row_from = tensor.parts.front().row_size(tensor.n_cols);
    const size_t              row_to   = ggml_row_size(tensor.type, tensor.n_cols);
    const int64_t             n_matrix = tensor.n_rows / tensor.n_last; // rows that share an importance
    std::vector<char>         raw;
    std::vector<RowConverter> converters(static_cast<size_t>(n_threads), RowConverter(tensor));

    for_pieces(tensor, [&](const TensorSource & part, int64_t first, int64_t n, int64_t at) {
        raw.resize(static_cast<size_t>(n) * row_from);
        buffer.resize(static_cast<size_t>(n) * row_to);
        part.read(first, n, tensor.n_cols, raw.data());
        split_work(n, raw.size() < (1 << 16) ? 1 : n_threads, [&](int t, int64_t row, int64_t end) {
            for (; row < end; ++row) {
                const int64_t from = source_row(row, tensor.n_group);
                converters[static_cast<size_t>(t)].convert(
                    part, raw.data() + static_cast<size_t>(from) * row_from, first + from,
                    imatrix == nullptr ? nullptr : imatrix + (at + row) / n_matrix * tensor.n_cols,
                    buffer.data() + static_cast<size_t>(row) * row_to);
            }
        });
        buffer = sink(std::move(buffer));
    });

    TensorHealth health;
    for (const RowConverter & converter : converters) {
        health.n_not_finite += converter.health().n_not_finite;
        health.n_overflow += converter.health().n_overflow;
    }
    return health;
}

void visit_source(const PlannedTensor & tensor, const FloatVisitor & visit) {
    if (tensor.parts.empty()) {
        visit(0, tensor.n_rows, tensor.values.data());
        return;
    }
    const size_t       row = tensor.parts.front().row_size(tensor.n_cols);
    std::vector<char>  raw;
    std::vector<float> values;
    for_pieces(tensor, [&](const TensorSource & part, int64_t first, int64_t n, int64_t at) {
        raw.resize(static_cast<size_t>(n) * row);
        values.resize(static_cast<size_t>(n * tensor.n_cols));
        part.read(first, n, tensor.n_cols, raw.data());
        for (int64_t i = 0; i < n; ++i) {
            const int64_t from = source_row(i, tensor.n_group);
            decode_row(part, raw.data() + static_cast<size_t>(from) * row, first + from, tensor.n_cols,
                       values.data() + i * tensor.n_cols);
        }
        visit(at, n, values.data());
    });
}

} // namespace buoy
