// Whose kernels multiply: by the processor, the type of the weights and the number of rows.

#include "kernel/choice.h"
#include "kernel/matmul.h"

#include <doctest/doctest.h>

using namespace buoy;

namespace {

constexpr KernelSet sets[] = {KernelSet::none, KernelSet::avx2, KernelSet::avxvnni,
                              KernelSet::vnni, KernelSet::amx,  KernelSet::neon};
constexpr RowCount  rows[] = {RowCount::one, RowCount::few, RowCount::many};

constexpr int64_t n_rows_of(RowCount count) { return count == RowCount::one ? 1 : count == RowCount::few ? 8 : 9; }

} // namespace

TEST_CASE("rows are one, few or many") {
    CHECK(row_count(1) == RowCount::one);
    CHECK(row_count(2) == RowCount::few);
    CHECK(row_count(8) == RowCount::few);
    CHECK(row_count(9) == RowCount::many);
    CHECK(row_count(4096) == RowCount::many);
}

TEST_CASE("what nobody has measured is ggml's") {
    for (const RowCount count : rows) {
        for (const bool experts : {false, true}) {
            CHECK(measured_speedup(KernelSet::none, {GGML_TYPE_Q4_0, 256, experts}, count, Layout::stored) == 0.0);
            CHECK(measured_speedup(KernelSet::neon, {GGML_TYPE_Q4_0, 256, experts}, count, Layout::best) == 0.0);
            CHECK(measured_speedup(KernelSet::avx2, {GGML_TYPE_IQ2_S, 256, experts}, count, Layout::best) == 0.0);
        }
    }
    for (const KernelSet set : {KernelSet::none, KernelSet::neon}) {
        const KernelChoice choice(Kernels::automatic, set, RowCount::many);
        CHECK_FALSE(is_measured(set));
        CHECK_FALSE(choice.is_ours({GGML_TYPE_Q4_0, 256, false}, 256));
        CHECK_FALSE(choice.keeps_stored({GGML_TYPE_Q4_0, 256, false}));
    }
    for (const KernelSet set : {KernelSet::avx2, KernelSet::avxvnni, KernelSet::vnni, KernelSet::amx}) {
        CHECK(is_measured(set));
    }
}

TEST_CASE("auto is ours exactly where ours was measured to be faster") {
    for (const KernelSet set : sets) {
        for (int i = 0; i < GGML_TYPE_COUNT; i++) {
            const auto type = static_cast<ggml_type>(i);
            if (ggml_type_size(type) == 0) {
                continue;
            }
            for (const bool experts : {false, true}) {
                const ProductWeights w   = {type, 256, experts};
                const bool           can = can_mul_packed(type, 256);
                for (const RowCount count : rows) {
                    CAPTURE(kernel_set_name(set));
                    CAPTURE(ggml_type_name(type));
                    const auto is_faster = [&](Layout theirs) {
                        return can && measured_speedup(set, w, count, theirs) >= 1.0;
                    };
                    const KernelChoice automatic(Kernels::automatic, set, count);
                    CHECK(automatic.is_ours(w, n_rows_of(count)) == is_faster(Layout::stored));
                    CHECK(automatic.keeps_stored(w) ==
                          is_faster(Layout::best)); // by the rows that a model's passes have
                    CHECK(automatic.can_be_ours(w) == can);
                    CHECK(KernelChoice(Kernels::ours, set, count).is_ours(w, 1) == can);
                    CHECK(KernelChoice(Kernels::ours, set, count).keeps_stored(w) == can);
                    CHECK_FALSE(KernelChoice(Kernels::ggml, set, count).is_ours(w, n_rows_of(count)));
                    CHECK_FALSE(KernelChoice(Kernels::ggml, set, count).keeps_stored(w));
                    CHECK_FALSE(KernelChoice().can_be_ours(w));
                }
            }
        }
    }
}

TEST_CASE("a set that nobody has here is chosen for like the one whose loops it runs") {
    const ProductWeights w = {GGML_TYPE_Q4_0, 256, false};
    for (const RowCount count : rows) {
        for (const Layout layout : {Layout::stored, Layout::best}) {
            CHECK(measured_speedup(KernelSet::avxvnni, w, count, layout) ==
                  measured_speedup(KernelSet::avx2, w, count, layout));
        }
    }
}

TEST_CASE("matrix units multiply what ggml has a layout for, except experts") {
    const KernelChoice choice(Kernels::automatic, KernelSet::amx, RowCount::many);
    for (const ggml_type type : {GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K,
                                 GGML_TYPE_Q6_K, GGML_TYPE_IQ4_XS}) {
        CHECK_FALSE(choice.keeps_stored({type, 256, false}));
        CHECK(choice.keeps_stored({type, 256, true}) == can_mul_packed(type, 256));
    }
    CHECK(choice.keeps_stored({GGML_TYPE_Q5_0, 256, false}) == can_mul_packed(GGML_TYPE_Q5_0, 256));
}

TEST_CASE("the choice, as -v shows it") {
    if (kernel_table() == nullptr) {
        MESSAGE("skipped: no kernels for this processor");
        return;
    }
    const std::string  ours = std::string(": our kernels (") + kernel_set_name(kernel_table()->set) + ")";
    const KernelChoice all(Kernels::ours, kernel_table()->set, RowCount::many);
    CHECK(all.text({GGML_TYPE_Q4_0, 256, false}, nullptr) == "Q4_0" + ours);
    CHECK(all.text({GGML_TYPE_Q4_K, 256, true}, nullptr) == "Q4_K experts" + ours);
    CHECK(all.text({GGML_TYPE_F32, 256, false}, nullptr) == "F32: ggml's kernels");
    CHECK(all.text({GGML_TYPE_Q4_0, 256, false}, "CPU_REPACK") == "Q4_0: ggml's kernels (CPU_REPACK)");
}
