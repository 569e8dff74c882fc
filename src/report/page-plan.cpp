#include "report/page-plan.h"

#include "buoy/message.h"

#include <algorithm>
#include <numeric>

namespace buoy::report {

namespace {

constexpr size_t steps_enough  = 12; // thinned so far before positions are pooled
constexpr size_t layers_enough = 8;

size_t groups(size_t n, size_t pool) { return (n + pool - 1) / pool; }

uint64_t matrix_size(const PageShape & shape, const PagePlan & plan, size_t n_rows) {
    const size_t H = plan.heads ? shape.n_heads : 1;
    const size_t K = groups(shape.n_positions, plan.pool);
    uint64_t     n = 0;
    switch (shape.reduce) {
        case TapReduce::none:
        case TapReduce::heads: n = uint64_t{H} * std::min(n_rows, K) * (row_head_size + K); break;
        case TapReduce::received: n = uint64_t{H} * (row_head_size + K); break;
        case TapReduce::regions: n = uint64_t{shape.n_regions} * (row_head_size + shape.n_regions); break;
    }
    return (n + 2) / 3 * 3; // each begins at a whole group of base64
}

// n of the list, the first and the last among them.
template <typename T> std::vector<T> evenly(const std::vector<T> & list, size_t n) {
    std::vector<T> out;
    for (size_t i = 0; i < n; i++) {
        out.push_back(n == 1 ? list.back() : list[i * (list.size() - 1) / (n - 1)]);
    }
    return out;
}

class Planner {
public:
    Planner(const PageShape & shape, uint64_t size_max)
        : shape_(shape), size_max_(size_max), n_steps_(shape.steps.size()), n_layers_(shape.layers.size()) {
        plan_.heads = shape.n_heads > 1;
    }

    PagePlan plan() {
        const size_t n_rows = std::accumulate(shape_.n_rows.begin(), shape_.n_rows.end(), size_t{0});
        // where steps are rows of one pattern, each is needed
        const bool rows_once = n_rows <= shape_.n_positions + shape_.steps.size();
        if (fits()) {
            return plan_;
        }
        plan_.heads = false;
        thin(rows_once ? n_steps_ : steps_enough, layers_enough);
        const bool poolable = shape_.reduce != TapReduce::regions;
        while (poolable && !fits() && plan_.pool < shape_.n_positions) {
            plan_.pool++;
        }
        thin(1, 1);
        grow(n_layers_, shape_.layers.size());
        grow(n_steps_, shape_.steps.size());
        if (!fits()) {
            fail("the page can't be made as small as ", size_max_, " bytes (`max_size`)");
        }
        return plan_;
    }

private:
    bool fits() {
        plan_.steps  = evenly(shape_.steps, n_steps_);
        plan_.layers = evenly(shape_.layers, n_layers_);
        plan_.size   = 0;
        for (size_t n : evenly(shape_.n_rows, n_steps_)) {
            plan_.size += matrix_size(shape_, plan_, n) * n_layers_;
        }
        return plan_.size <= size_max_;
    }

    // Takes away what is farther from enough, until it fits.
    void thin(size_t steps_min, size_t layers_min) {
        while (!fits() && (n_steps_ > steps_min || n_layers_ > layers_min)) {
            const bool of_steps =
                n_steps_ > steps_min && (n_layers_ <= layers_min || n_steps_ * layers_min >= n_layers_ * steps_min);
            size_t & n = of_steps ? n_steps_ : n_layers_;
            n          = std::max(of_steps ? steps_min : layers_min, n - std::max<size_t>(1, n / 16));
        }
    }

    // Gives back what pooling made room for.
    void grow(size_t & n, size_t n_max) {
        const size_t n_min = n;
        for (n = n_max; n > n_min && !fits();) {
            n--;
        }
    }

    const PageShape & shape_;
    uint64_t          size_max_;
    size_t            n_steps_, n_layers_;
    PagePlan          plan_;
};

} // namespace

PagePlan plan_page(const PageShape & shape, uint64_t size_max) {
    return shape.steps.empty() ? PagePlan{} : Planner(shape, size_max).plan();
}

} // namespace buoy::report
