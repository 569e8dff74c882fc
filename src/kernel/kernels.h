#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// The inner loops of our own CPU operations, as one table per instruction set. Whoever calls them (matmul, attention, summary)
// divides the work and knows ggml; these know numbers in memory only.

namespace buoy {

constexpr int64_t kernel_block = 32; // values of a row of activations that share a scale
constexpr int64_t kernel_quad  = 4;  // rows of activations that are multiplied together
constexpr int64_t kernel_rows  = 8;  // rows of weights that are multiplied together

// 32 values of 4 rows: v = d·q. Four neighbouring values lie together, so that one load spreads them over a register.
struct PackedBlock {
    int8_t  q[kernel_block / 4][kernel_quad][4];
    float   d[kernel_quad];
    float   sum[kernel_quad]; // of the 32 values
    int32_t start[kernel_quad],
        start_first[kernel_quad]; // −Σ q, of all and of the first 16, as the instruction set adds
};

// Rows of weights as they lie in memory, and a stretch of their columns.
struct WeightSpan {
    const uint8_t * rows;
    size_t          row_size;
    int64_t         n_rows; // 1 … kernel_rows
    int64_t         block_first, block_count;
    const uint8_t * next; // memory that is needed soon
    size_t          next_size;
};

// What one thread needs to multiply kernel_rows rows, big enough for every type.
constexpr int64_t tile_blocks_max = 32;
struct alignas(64) WeightTile {
    uint8_t bytes[tile_blocks_max * 352];
};

// One type of weights. unpack fills a tile with at most block_limit blocks of columns; multiply adds its product with four
// packed rows to y, or starts with it: y[r·y_stride + i] for rows r < n, weights i < kernel_rows.
struct WeightKernel {
    int64_t block_limit;
    void (*unpack)(const WeightSpan & span, WeightTile & tile);
    void (*multiply)(const WeightTile & tile, const PackedBlock * x, int64_t n_blocks, bool start, float * y,
                     size_t y_stride, int64_t n);
    void (*multiply_two)(const WeightTile & a, const WeightTile & b, const PackedBlock * x, int64_t n_blocks,
                         bool start, float * ya, float * yb, size_t y_stride, int64_t n); // the same with two tiles
    // all columns of a span with the first row of x: y[i], i < kernel_rows
    void (*multiply_one)(const WeightSpan & span, const PackedBlock * x, float * y);
};

// What a gate is made of.
enum class Gating { silu, gelu };

enum class KeyType { f32, f16, q8_0 };

// Keys or values of one head.
struct KeyRows {
    const uint8_t * data;
    size_t          stride; // bytes from one position to the next
    KeyType         type;
};

constexpr int64_t mixed_rows = 4; // sums that rows are mixed into together

constexpr int64_t attention_rows_max = 64;
constexpr int64_t attention_head_max = 256; // a multiple of 8
constexpr int64_t attention_floats =
    4096; // of each buffer: what a head needs at a time fits into a core's second cache

// Some queries of heads that share their keys and values. n_rows · head_dim rounded up to 16 is at most attention_floats.
struct AttentionWork {
    int64_t n_rows, n_keys, head_dim;
    int64_t rows_together; // 1, 2, 4, 8 or 16, and at least n_rows / 16: on it alone depends how a score is summed
    const float * q[attention_rows_max];
    float *       out[attention_rows_max];
    const uint16_t *
            mask[attention_rows_max]; // halves that are added to the scaled scores; null for all rows or for none
    KeyRows k, v;
    float   scale;
};

// Room for one AttentionWork, rows that fill up a vector included.
struct alignas(64) AttentionState {
    float queries[2 * attention_floats], mixed[2 * attention_floats];
    float largest[16 * 16], sums[16 * 16]; // of the scores so far, and Σ exp(score − largest)
};

// A row of logits: the two largest (of equals the first), their probabilities, and the entropy in nats.
struct LogitSummary {
    int32_t id, second_id;
    float   prob, prob_second, entropy;
};

// Sets of instructions. amx: those of vnni, where ggml has kernels for matrix units beside ours.
enum class KernelSet { none, avx2, avxvnni, vnni, amx, neon };

const char * kernel_set_name(KernelSet set); // as their makers call them

// Multiplies in registers, so many multiply-adds in each of n rounds. What it returns means nothing.
struct PeakLoop {
    int64_t multiply_adds;
    float (*run)(int64_t n);
};

struct KernelTable {
    KernelSet set;
    PeakLoop  peak_floats, peak_bytes;

    // n rows (0 … 4) of n_blocks·32 floats
    void (*pack)(const float * const * rows, int64_t n, int64_t n_blocks, PackedBlock * to);

    // a = silu(a)·b or gelu(a)·b (the tanh form), n a multiple of 8
    void (*gate)(float * a, const float * b, int64_t n);
    void (*gate_gelu)(float * a, const float * b, int64_t n);

    void (*attend)(const AttentionWork * works, AttentionState * states, int64_t n); // of the same n_keys and head_dim

    // out[r] += factor · the weights of row r over the n_keys, instead of the values mixed by them; several rows may share their
    // out. room: n_rows rounded up to 16 times n_keys rounded up to 64 floats
    void (*weigh)(const AttentionWork & work, float factor, AttentionState & state, float * room);

    void (*exponentials)(const float * x, float * to, int64_t n, float factor,
                         float offset); // to = exp(factor·(x − offset))
    LogitSummary (*summarize)(const float * logits, int64_t n);

    // sums[r][i] += Σ weights[k][r] · rows[k][i] over n rows, i < n_cols
    void (*mix)(const float * const * rows, const float (*weights)[mixed_rows], int64_t n, float * const * sums,
                int64_t n_cols);

    WeightKernel q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs, mxfp4;
};

// Those whose instructions this processor has, the best first.
const std::vector<const KernelTable *> & kernel_tables();

// The best of them, or null.
const KernelTable * kernel_table();

// Null where this build is for another kind of processor. Whether the one that runs has the instructions is not asked.
const KernelTable * avx2_table();
const KernelTable * avxvnni_table(); // the same with dot products of bytes
const KernelTable * vnni_table();    // with those of AVX-512, and its long registers for floats
const KernelTable * neon_table();    // 64-bit ARM with dot products of bytes

} // namespace buoy
