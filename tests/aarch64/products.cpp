// Products of weights that are plain bits with plain numbers, printed in full: what another kind of processor prints must be the same.

#include "kernel/kernels.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

using namespace buoy;

namespace {

struct Type {
    const char * name;
    WeightKernel KernelTable::*kernel;
    size_t                     size; // of 256 columns
};

const Type types[] = {{"q4_0", &KernelTable::q4_0, 8 * 18},     {"q4_1", &KernelTable::q4_1, 8 * 20},
                      {"q5_0", &KernelTable::q5_0, 8 * 22},     {"q5_1", &KernelTable::q5_1, 8 * 24},
                      {"q8_0", &KernelTable::q8_0, 8 * 34},     {"q2_k", &KernelTable::q2_k, 84},
                      {"q3_k", &KernelTable::q3_k, 110},        {"q4_k", &KernelTable::q4_k, 144},
                      {"q5_k", &KernelTable::q5_k, 176},        {"q6_k", &KernelTable::q6_k, 210},
                      {"iq4_nl", &KernelTable::iq4_nl, 8 * 18}, {"iq4_xs", &KernelTable::iq4_xs, 136},
                      {"mxfp4", &KernelTable::mxfp4, 8 * 17}};

constexpr int64_t n_cols = 1024, n_blocks = n_cols / kernel_block;

std::vector<float> multiply(const KernelTable & table, const Type & type) {
    std::mt19937         random(7);
    const size_t         row_size = type.size * n_cols / 256;
    std::vector<uint8_t> weights(row_size * kernel_rows);
    std::vector<float>   x(kernel_quad * n_cols), y(kernel_quad * kernel_rows);
    for (uint8_t & byte : weights) {
        byte = static_cast<uint8_t>(random() & 0xbf); // halves are finite without that bit
    }
    for (float & value : x) {
        value = (static_cast<float>(random() % 20001) - 10000.0f) / 777.0f;
    }
    const float *            rows[] = {x.data(), x.data() + n_cols, x.data() + 2 * n_cols, x.data() + 3 * n_cols};
    std::vector<PackedBlock> packed(n_blocks);
    table.pack(rows, kernel_quad, n_blocks, packed.data());
    const WeightKernel & kernel = table.*type.kernel;
    for (int64_t at = 0; at < n_blocks; at += kernel.block_limit) {
        const int64_t n    = std::min(kernel.block_limit, n_blocks - at);
        WeightSpan    span = {};
        span.rows          = weights.data();
        span.row_size      = row_size;
        span.n_rows        = kernel_rows;
        span.block_first   = at;
        span.block_count   = n;
        WeightTile tile;
        kernel.unpack(span, tile);
        kernel.multiply(tile, packed.data() + at, n, at == 0, y.data(), kernel_rows, kernel_quad);
    }
    return y;
}

} // namespace

int main() {
    if (kernel_table() == nullptr) {
        std::fputs("no kernels for this processor\n", stderr);
        return 1;
    }
    for (const Type & type : types) {
        std::printf("%s", type.name);
        for (const float value : multiply(*kernel_table(), type)) {
            std::printf(" %a", static_cast<double>(value));
        }
        std::printf("\n");
    }
}
