#include "verify.h"

#include "base/split-work.h"
#include "buoy/message.h"
#include "io/gguf-file.h"
#include "tensor-data.h"

#include <algorithm>
#include <cmath>

namespace buoy {

namespace {

TensorError compare(const PlannedTensor & tensor, const GgufTensor & written, const MappedFile & file) {
    const size_t       row = ggml_row_size(tensor.type, tensor.n_cols);
    std::vector<char>  raw;
    std::vector<float> values(static_cast<size_t>(tensor.n_cols));
    double             error  = 0;
    double             total  = 0;
    TensorError        result = {tensor.name, tensor.type, 0, 0};
    TensorSource       as_written;
    as_written.type = tensor.type;

    visit_source(tensor, [&](int64_t first, int64_t n_rows, const float * source) {
        raw.resize(static_cast<size_t>(n_rows) * row);
        file.read(written.offset + static_cast<uint64_t>(first) * row, raw.data(), raw.size());
        for (int64_t i = 0; i < n_rows; ++i) {
            decode_row(as_written, raw.data() + static_cast<size_t>(i) * row, 0, tensor.n_cols, values.data());
            for (int64_t col = 0; col < tensor.n_cols; ++col) {
                const double expected = source[i * tensor.n_cols + col];
                const double found    = values[static_cast<size_t>(col)];
                if (!std::isfinite(expected)) {
                    continue; // reported when it was written
                }
                error += (found - expected) * (found - expected);
                total += expected * expected;
                result.largest = std::max(result.largest, std::abs(found - expected));
            }
        }
    });
    result.nmse = error == 0 ? 0 : error / total;
    return result;
}

} // namespace

std::vector<TensorError> verify_tensors(const std::string & path, const std::vector<PlannedTensor> & tensors,
                                        int n_threads) {
    const GgufFile           file = GgufFile::open(path);
    std::vector<TensorError> errors(tensors.size());
    split_work(static_cast<int64_t>(tensors.size()), n_threads, [&](int, int64_t first, int64_t end) {
        for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(end); ++i) {
            const PlannedTensor & tensor  = tensors[i];
            const GgufTensor *    written = file.find_tensor(tensor.name);
            if (written == nullptr || written->type != tensor.type || written->size != tensor.n_bytes()) {
                fail_runtime(printable(path), ": tensor ", in_quotes(tensor.name), " was not written as planned");
            }
            errors[i] = compare(tensor, *written, file.file(written->file));
            if (tensor.type == tensor.source_type() && errors[i].nmse != 0) {
                fail_runtime(printable(path), ": tensor ", in_quotes(tensor.name), " was kept as ",
                             ggml_type_name(tensor.type), " but differs from its source");
            }
        }
    });
    std::stable_sort(errors.begin(), errors.end(),
                     [](const TensorError & a, const TensorError & b) { return a.nmse > b.nmse; });
    return errors;
}

} // namespace buoy
