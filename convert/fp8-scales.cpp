#include "fp8-scales.h"

#include "buoy/message.h"

namespace buoy {

namespace {

constexpr int64_t BLOCK_DEFAULT = 128;

std::vector<float> read_floats(const SafetensorsTensor & tensor, const Safetensors & source,
                               const std::string & where) {
    const ggml_type type = tensor.dtype == "F32"    ? GGML_TYPE_F32
                           : tensor.dtype == "F16"  ? GGML_TYPE_F16
                           : tensor.dtype == "BF16" ? GGML_TYPE_BF16
                                                    : GGML_TYPE_COUNT;
    if (type == GGML_TYPE_COUNT) {
        fail(where, ": scales ", in_quotes(tensor.name), " are ", tensor.dtype, ", expected F32, F16 or BF16");
    }
    std::vector<char> raw(static_cast<size_t>(tensor.size));
    source.read(tensor, 0, raw.data(), raw.size());
    TensorSource as_row;
    as_row.type = type;
    std::vector<float> values(static_cast<size_t>(tensor.n_elements()));
    decode_row(as_row, raw.data(), 0, tensor.n_elements(), values.data());
    return values;
}

std::pair<int64_t, int64_t> block_size(const HfJson & config) {
    const nlohmann::json * quantisation = config.find({"quantization_config"});
    if (quantisation == nullptr || !quantisation->is_object() || !quantisation->contains("weight_block_size")) {
        return {BLOCK_DEFAULT, BLOCK_DEFAULT};
    }
    const nlohmann::json & size = (*quantisation)["weight_block_size"];
    if (!size.is_array() || size.size() != 2 || !size[0].is_number_unsigned() || !size[1].is_number_unsigned() ||
        size[0] == 0U || size[1] == 0U || size[0] > INT32_MAX || size[1] > INT32_MAX) {
        fail(config.path(), ": 'weight_block_size' is ", in_quotes(size.dump()), ", expected two positive numbers");
    }
    return {size[0].get<int64_t>(), size[1].get<int64_t>()};
}

int64_t blocks(int64_t n, int64_t size) { return (n + size - 1) / size; }

} // namespace

FoundScales find_fp8_scales(const SafetensorsTensor & weight, const Safetensors & source, const HfJson & config) {
    const std::string &       where = source.paths().at(static_cast<size_t>(weight.file));
    const SafetensorsTensor * found = source.find(weight.name + "_scale_inv");
    if (found == nullptr) {
        found = source.find(weight.name + "_scale");
    }
    if (found == nullptr) {
        fail(where, ": tensor ", in_quotes(weight.name), " is ", weight.dtype, " without its scales (",
             in_quotes(weight.name + "_scale_inv"), ")");
    }
    const int64_t n_rows = weight.shape.at(0);
    const int64_t n_cols = weight.shape.size() < 2 ? 1 : weight.shape[1];
    const auto &  shape  = found->shape;
    auto          scales = std::make_shared<Fp8Scales>();

    const auto [block_rows, block_cols]  = block_size(config);
    const std::vector<int64_t> in_blocks = {blocks(n_rows, block_rows), blocks(n_cols, block_cols)};
    if (found->n_elements() == 1) {
        scales->block_rows = n_rows;
        scales->block_cols = n_cols;
    } else if (shape == std::vector<int64_t>{n_rows} || shape == std::vector<int64_t>{n_rows, 1}) {
        scales->block_cols = n_cols;
    } else if (shape == in_blocks) {
        scales->block_rows = block_rows;
        scales->block_cols = block_cols;
        scales->n_across   = in_blocks[1];
    } else {
        fail(where, ": the shape of scales ", in_quotes(found->name), " fits neither the tensor, its ", n_rows,
             " rows nor blocks of ", block_rows, " by ", block_cols);
    }
    scales->values = read_floats(*found, source, where);
    return {found, std::move(scales)};
}

} // namespace buoy
