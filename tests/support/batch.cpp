#include "support/batch.h"

#include "support/oracle.h"

#include <doctest/doctest.h>

namespace buoy::test {

ContextParams many_sequences(ContextParams params) {
    params.n_sequences = batch_size;
    params.n_ctx       = 128;
    return params;
}

// Sequences of different lengths, positions and rows. A block-causal model's begin with a block.
std::vector<ForwardRequest> different_requests(KvUse kv) {
    std::vector<ForwardRequest> batch;
    for (int32_t s = 0; s < batch_size; s++) {
        const int32_t  n       = 1 + (s * 7) % 30;
        const int32_t  first   = kv == KvUse::store ? 0 : 8 * (s % 3);
        ForwardRequest request = whole_request(random_tokens(static_cast<size_t>(n), 256, static_cast<uint32_t>(s)));
        request.sequence       = s;
        request.positions      = range(first, first + n);
        request.kv             = kv;
        if (s % 3 == 1) {
            request.rows = {n - 1};
        } else if (s % 3 == 2) {
            request.rows.resize(static_cast<size_t>(n / 2));
        }
        if (s == 5) {
            request.rows.clear(); // only stored, or nothing at all
        }
        batch.push_back(std::move(request));
    }
    return batch;
}

ForwardRequest alone(ForwardRequest request) {
    request.sequence = 0;
    return request;
}

namespace {

// Of several passes, one after the other.
void check_same(Context & together, Context & single, double tolerance,
                const std::vector<std::vector<ForwardRequest>> & passes) {
    std::vector<std::vector<ForwardResult>> expected(batch_size);
    for (int32_t s = 0; s < batch_size; s++) {
        single.kv_truncate(0, 0);
        for (const auto & batch : passes) {
            expected[static_cast<size_t>(s)].push_back(single.forward(alone(batch[static_cast<size_t>(s)])));
        }
    }
    for (size_t i = 0; i < passes.size(); i++) {
        const std::vector<ForwardResult> actual = together.forward(passes[i]);
        for (size_t s = 0; s < batch_size; s++) {
            CAPTURE(i);
            CAPTURE(s);
            REQUIRE(actual[s].logits.size() == expected[s][i].logits.size());
            if (!actual[s].logits.empty()) {
                CHECK(nmse(actual[s].logits, expected[s][i].logits) <= tolerance);
            }
        }
    }
}

// The next part of every sequence, as long as one block.
std::vector<ForwardRequest> next_parts(std::vector<ForwardRequest> batch, int32_t block) {
    for (ForwardRequest & request : batch) {
        const int32_t first = (request.positions.back() / block + 1) * block;
        request.tokens      = random_tokens(static_cast<size_t>(block), 256, static_cast<uint32_t>(first));
        request.positions   = range(first, first + block);
        request.rows        = range(0, block);
    }
    return batch;
}

} // namespace

void check_batch(Context & together, Context & single, double tolerance) {
    check_same(together, single, tolerance, {different_requests(KvUse::none)});
    // stored, then blocks against what is stored; prompts that end inside a block leave it incomplete, as alone
    const std::vector<ForwardRequest> prompts = different_requests(KvUse::store);
    const std::vector<ForwardRequest> second  = next_parts(prompts, 4);
    check_same(together, single, tolerance, {prompts, second, next_parts(second, 4)});
}

std::vector<RandomModel> attention_kinds() {
    return {small_model("llada"), small_model("llama"), small_model("qwen3", 4)};
}

} // namespace buoy::test
