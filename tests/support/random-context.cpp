#include "support/random-context.h"

#include "support/oracle.h"
#include "support/paths.h"

#include <numeric>
#include <random>

namespace buoy::test {

std::unique_ptr<Context> load_context(const TestModel & model, const ContextParams & params) {
    return buoy::load_context(model.path, model, params);
}

std::unique_ptr<Context> load_llama_context(const TestModel & model, const ContextParams & params) {
    return load_llama_model(model.path, model, params)->make_context(params);
}

Observer & observer(ForwardRequest & request) {
    if (request.observers.empty()) {
        request.observers.emplace_back();
    }
    return request.observers[0];
}

Batch two_sequences(ForwardRequest first, const std::vector<int32_t> & second_tokens, std::optional<float> scale) {
    ForwardRequest second = first;
    second.sequence       = 1;
    second.tokens         = second_tokens;
    second.edits.clear();
    if (scale) {
        first.guidance = Guidance{1, *scale};
        for (Observer & watching : second.observers) {
            watching.probed.clear();
        }
    }
    return std::vector<ForwardRequest>{first, second};
}

ContextParams exact_params() {
    ContextParams params;
    params.flash  = FlashAttention::off;
    params.type_k = KvType::f32;
    params.type_v = KvType::f32;
    return params;
}

std::string random_gguf(const RandomModel & model) {
    const std::string path = temp_dir() + "/random.gguf";
    write_random_model(model, path);
    return path;
}

std::unique_ptr<Context> random_context(const RandomModel & model, const ContextParams & params) {
    TestModel where;
    where.path = random_gguf(model);
    return load_context(where, params);
}

std::vector<int32_t> random_tokens(size_t n, int32_t limit, uint32_t seed) {
    std::mt19937         random(seed);
    std::vector<int32_t> tokens;
    for (size_t i = 0; i < n; i++) {
        tokens.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(limit)));
    }
    return tokens;
}

RandomModel small_model(const std::string & arch, int32_t block_length) {
    RandomModel model;
    model.arch         = arch;
    model.n_layer      = 3;
    model.n_head_kv    = arch == "llada" ? 4 : 2;
    model.head_dim     = 16;
    model.block_length = block_length;
    return model;
}

std::vector<int32_t> range(int32_t first, int32_t last) {
    std::vector<int32_t> numbers(static_cast<size_t>(last - first));
    std::iota(numbers.begin(), numbers.end(), first);
    return numbers;
}

ForwardRequest stored_part(const std::vector<int32_t> & tokens, int32_t first, int32_t last) {
    ForwardRequest request = whole_request({tokens.begin() + first, tokens.begin() + last});
    request.positions      = range(first, last);
    request.kv             = KvUse::store;
    return request;
}

} // namespace buoy::test
