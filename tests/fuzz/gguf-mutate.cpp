#include "gguf-mutate.h"

#include "buoy/error.h"
#include "io/gguf-file.h"
#include "mutate.h"

#include <array>
#include <exception>

namespace buoy::fuzz {

namespace {

using test::GgufBytes;
using test::le;

// Sizes that a graph, a product or a 32-bit number may get wrong.
uint64_t edge_size(Random & random) {
    static constexpr std::array<uint64_t, 16> edges{0,  1,  2,   3,          4,          8,          16,         32,
                                                    64, 96, 261, 0x7fffffff, 0xffffffff, 1ull << 32, 1ull << 62, ~0ull};
    return edges[below(random, edges.size())];
}

double edge_float(Random & random) {
    static constexpr std::array<double, 9> edges{0.0, -0.0, 1.0, -1.0, 1e-40, 1e38, 1e300, -1e300, 1e-6};
    return edges[below(random, edges.size())];
}

} // namespace

std::optional<GgufBytes> parsed_gguf(const std::string & input) {
    try {
        GgufFile::open(scratch_file("mutate.gguf", input));
        return test::parse_gguf(input);
    } catch (const std::exception &) { // an Error, or another order than that of the files we make
        return std::nullopt;
    }
}

void mutate_value(GgufBytes::Pair & pair, Random & random) {
    switch (pair.type) {
        case GGUF_TYPE_UINT32:
        case GGUF_TYPE_INT32: pair.value = le(static_cast<uint32_t>(edge_size(random))); break;
        case GGUF_TYPE_FLOAT32:
            pair.type  = GGUF_TYPE_FLOAT64;
            pair.value = le(edge_float(random));
            break;
        case GGUF_TYPE_BOOL: pair.value = le(static_cast<uint8_t>(below(random, 2))); break;
        default:
            if (!pair.value.empty()) {
                pair.value[below(random, pair.value.size())] = static_cast<char>(random());
            }
            break;
    }
}

void mutate_tensor(GgufBytes::Tensor & tensor, Random & random) {
    switch (below(random, 4)) {
        case 0: tensor.type = static_cast<uint32_t>(below(random, GGML_TYPE_COUNT + 1)); break;
        case 1:
            if (!tensor.dims.empty()) {
                tensor.dims[below(random, tensor.dims.size())] = static_cast<int64_t>(edge_size(random));
            }
            break;
        case 2:
            if (!tensor.name.empty()) {
                tensor.name[below(random, tensor.name.size())] = static_cast<char>(random());
            }
            break;
        default:
            for (char & byte : tensor.data) { // any bits as weights: NaN, infinities, subnormals
                byte = static_cast<char>(random());
            }
            break;
    }
}

void mutate_gguf(GgufBytes & file, Random & random) {
    if (file.pairs.empty()) {
        return;
    }
    GgufBytes::Pair & pair = file.pairs[below(random, file.pairs.size())];
    switch (below(random, 6)) {
        case 0:
            if (!file.tensors.empty()) {
                mutate_tensor(file.tensors[below(random, file.tensors.size())], random);
            }
            break;
        case 1: file.erase_pair(std::string(pair.key)); break;
        case 2: pair.type = static_cast<uint32_t>(below(random, 14)); break;
        default: mutate_value(pair, random); break;
    }
}

void mutate_gguf(std::string & input, Random & random) {
    auto file = below(random, 8) == 0 ? std::nullopt : parsed_gguf(input);
    if (!file) {
        mutate_bytes(input, random);
        return;
    }
    mutate_gguf(*file, random);
    input = file->build();
}

} // namespace buoy::fuzz
