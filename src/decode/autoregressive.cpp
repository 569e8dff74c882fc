#include "buoy/error.h"
#include "decode/decode.h"

#include <algorithm>
#include <cmath>

namespace buoy {

namespace {

constexpr int32_t n_batch = 512; // prompt tokens computed at a time

} // namespace

Generation generate_autoregressive(Engine & engine, const std::vector<int32_t> & prompt, const GenerateParams & params) {
    Generation           out;
    std::vector<int32_t> tokens = prompt;
    out.prompt                  = prompt;
    engine.kv_truncate(0);

    int32_t n_done = 0; // positions in the store
    for (int32_t step = 0; step < params.n_predict && !out.stopped; step++) {
        ForwardRequest request;
        request.output = OutputKind::summary;
        request.kv     = KvUse::store;
        RowSummary last;
        while (n_done < static_cast<int32_t>(tokens.size())) {
            const int32_t n = std::min(n_batch, static_cast<int32_t>(tokens.size()) - n_done);
            request.tokens.assign(tokens.begin() + n_done, tokens.begin() + n_done + n);
            request.positions.clear();
            for (int32_t i = 0; i < n; i++) {
                request.positions.push_back(n_done + i);
            }
            n_done += n;
            request.rows.clear();
            if (n_done == static_cast<int32_t>(tokens.size())) {
                request.rows.push_back(n - 1);
            }
            const ForwardResult & result = engine.forward(request);
            out.n_forward++;
            if (!result.summaries.empty()) {
                last = result.summaries[0];
            }
        }
        if (!std::isfinite(last.prob)) {
            fail_runtime("the model's output at position ", tokens.size(), " is not a number");
        }
        if (std::find(params.end_ids.begin(), params.end_ids.end(), last.id) != params.end_ids.end()) {
            break;
        }
        StepReport report;
        report.step = step;
        report.committed.emplace_back(static_cast<int32_t>(tokens.size()), last.id);
        tokens.push_back(last.id);
        out.tokens.push_back(last.id);
        out.steps.push_back(report);
        out.stopped = params.on_step && !params.on_step(out.steps.back(), tokens);
    }
    return out;
}

} // namespace buoy
