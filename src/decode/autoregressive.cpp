#include "base/fail.h"
#include "decode/decode.h"

#include <algorithm>
#include <chrono>

namespace buoy {

namespace {

// Computes the tokens from position first on. The result is about the last one; null where on_prompt ended it before.
const ForwardResult * compute_from(Context & context, const std::vector<int32_t> & tokens, int32_t first,
                                   OutputKind output, int32_t step, const GenerateParams & params,
                                   int64_t & n_forward) {
    const auto            n_total = static_cast<int32_t>(tokens.size());
    const ForwardResult * result  = nullptr;
    ForwardRequest        request;
    request.output = output;
    request.kv     = KvUse::store;
    while (first < n_total) {
        const int32_t n = params.on_forward ? n_total - first : std::min(params.n_batch, n_total - first);
        request.tokens.assign(tokens.begin() + first, tokens.begin() + first + n);
        request.positions.clear();
        for (int32_t i = 0; i < n; i++) {
            request.positions.push_back(first + i);
        }
        first += n;
        request.rows.clear();
        if (first == n_total) {
            request.rows.push_back(n - 1);
        }
        if (params.on_forward) {
            params.on_forward(step, request);
        }
        result = &context.forward(request);
        n_forward++;
        const float done = static_cast<float>(first) / static_cast<float>(n_total);
        if (first < n_total && params.on_prompt && !params.on_prompt(done)) {
            return nullptr;
        }
    }
    return result;
}

} // namespace

Generation generate_autoregressive(Context & context, const std::vector<int32_t> & prompt,
                                   const GenerateParams & params) {
    if (prompt.empty()) {
        fail("the prompt is empty, and an autoregressive model needs at least one token to continue");
    }
    Generation           out;
    std::vector<int32_t> tokens = prompt;
    TokenChoice          choice(params, context.info().traits.mask_id, ConfidenceOf::sampling);
    const OutputKind     output = choice.summary_is_enough() ? OutputKind::summary : OutputKind::logits;
    const auto           start  = std::chrono::steady_clock::now();
    out.prompt                  = prompt;
    // positions in the store; the last token is computed again for its output
    const auto same   = std::mismatch(params.stored.begin(), params.stored.end(), prompt.begin(), prompt.end() - 1);
    auto       n_done = static_cast<int32_t>(same.first - params.stored.begin());
    context.kv_truncate(0, n_done);
    for (int32_t step = 0; step < params.n_predict && !out.stopped && !out.ended; step++) {
        const auto            position = static_cast<int32_t>(tokens.size());
        const ForwardResult * result   = compute_from(context, tokens, n_done, output, step, params, out.n_forward);
        n_done                         = position;
        if (step == 0) {
            out.prompt_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
        }
        if (result == nullptr) {
            out.stopped = true;
            break;
        }
        const Candidate c = output == OutputKind::summary
                                ? choice.choose(result->summaries[0])
                                : choice.choose(result->logits.data(), context.info().n_vocab, step, position);
        StepReport      report;
        report.step = step;
        report.committed.emplace_back(position, c.id);
        report.confidence.emplace_back(position, c.prob);
        tokens.push_back(c.id);
        out.ended = std::find(params.end_ids.begin(), params.end_ids.end(), c.id) != params.end_ids.end();
        if (!out.ended) {
            out.tokens.push_back(c.id);
        }
        out.steps.push_back(std::move(report));
        out.stopped = params.on_step && !params.on_step(out.steps.back(), tokens);
    }
    out.stored.assign(tokens.begin(), tokens.begin() + n_done);
    out.sequence = std::move(tokens);
    return out;
}

} // namespace buoy
