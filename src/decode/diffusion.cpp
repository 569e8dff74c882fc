#include "buoy/error.h"
#include "decode/decode.h"
#include "decode/schedule.h"

#include <algorithm>
#include <cmath>

namespace buoy {

namespace {

struct Candidate {
    int32_t position;
    int32_t id;
    float   confidence;
};

// Prompt and masks, and what decoding them keeps track of.
class Denoiser {
public:
    Denoiser(Engine & engine, const std::vector<int32_t> & prompt, const GenerateParams & params)
        : engine_(engine), params_(params), traits_(engine.info().traits), first_(static_cast<int32_t>(prompt.size())) {
        request_.tokens = prompt;
        request_.tokens.resize(prompt.size() + static_cast<size_t>(params.n_predict), traits_.mask_id);
        request_.output = OutputKind::summary;
        out_.prompt     = prompt;
    }

    Generation run() {
        const int32_t block_length = choose_block_length();
        const int32_t n_blocks     = (params_.n_predict + block_length - 1) / block_length;
        const int32_t n_steps      = params_.steps > 0 ? params_.steps : params_.n_predict;
        for (int32_t block = 0; block < n_blocks && !out_.stopped && !ended(); block++) {
            const int32_t from = first_ + block * block_length;
            const int32_t to   = std::min(from + block_length, first_ + params_.n_predict);
            // steps that don't divide evenly go to the first blocks, and a block has one at least
            run_block(block, from, to, std::max(1, transfer_count(n_steps, n_blocks, block)));
        }
        finish();
        return std::move(out_);
    }

private:
    int32_t choose_block_length() const {
        const int32_t wanted = params_.block_length > 0 ? params_.block_length : traits_.block_length;
        return wanted > 0 ? std::min(wanted, params_.n_predict) : params_.n_predict;
    }

    void run_block(int32_t block, int32_t from, int32_t to, int32_t n_steps) {
        for (int32_t step = 0; step < n_steps && !out_.stopped; step++) {
            StepReport report;
            report.step  = static_cast<int32_t>(out_.steps.size());
            report.block = block;
            const int32_t n = transfer_count(to - from, n_steps, step);
            if (n > 0) {
                write_best(candidates(from, to), n, report);
            }
            out_.steps.push_back(report);
            out_.stopped = params_.on_step && !params_.on_step(out_.steps.back(), request_.tokens);
        }
    }

    // The masked positions of [from, to) with the model's first choice for each.
    std::vector<Candidate> candidates(int32_t from, int32_t to) {
        std::vector<Candidate> found;
        request_.rows.clear();
        for (int32_t position = from; position < to; position++) {
            if (request_.tokens[static_cast<size_t>(position)] == traits_.mask_id) {
                found.push_back({ position, 0, 0.0f });
                // shifted models predict a token from the row before it; the first row stands in for itself
                request_.rows.push_back(traits_.shift ? std::max(position - 1, 0) : position);
            }
        }
        const ForwardResult & result = engine_.forward(request_);
        out_.n_forward++;
        for (size_t i = 0; i < found.size(); i++) {
            const RowSummary & row = result.summaries[i];
            if (!std::isfinite(row.prob)) {
                fail_runtime("the model's output at position ", found[i].position, " is not a number");
            }
            const bool is_mask  = row.id == traits_.mask_id;
            found[i].id         = is_mask ? row.second_id : row.id;
            found[i].confidence = is_mask ? row.prob - row.margin : row.prob;
        }
        return found;
    }

    void write_best(std::vector<Candidate> found, int32_t n, StepReport & report) {
        const auto end = found.begin() + std::min(static_cast<ptrdiff_t>(n), static_cast<ptrdiff_t>(found.size()));
        std::partial_sort(found.begin(), end, found.end(), [](const Candidate & a, const Candidate & b) {
            return a.confidence != b.confidence ? a.confidence > b.confidence : a.position < b.position;
        });
        for (auto it = found.begin(); it != end; ++it) {
            request_.tokens[static_cast<size_t>(it->position)] = it->id;
            report.committed.emplace_back(it->position, it->id);
        }
        std::sort(report.committed.begin(), report.committed.end());
    }

    bool is_end(int32_t id) const {
        return std::find(params_.end_ids.begin(), params_.end_ids.end(), id) != params_.end_ids.end();
    }

    // An end token with nothing masked before it: what follows will not be shown.
    bool ended() const {
        for (size_t i = static_cast<size_t>(first_); i < request_.tokens.size(); i++) {
            if (request_.tokens[i] == traits_.mask_id) {
                return false;
            }
            if (is_end(request_.tokens[i])) {
                return true;
            }
        }
        return false;
    }

    void finish() {
        for (size_t i = static_cast<size_t>(first_); i < request_.tokens.size() && !is_end(request_.tokens[i]); i++) {
            if (request_.tokens[i] != traits_.mask_id) { // a stopped run shows what is there
                out_.tokens.push_back(request_.tokens[i]);
            }
        }
    }

    Engine &               engine_;
    const GenerateParams & params_;
    const Traits           traits_;
    const int32_t          first_; // position of the first generated token
    ForwardRequest         request_;
    Generation             out_;
};

} // namespace

Generation generate_diffusion(Engine & engine, const std::vector<int32_t> & prompt, const GenerateParams & params) {
    return Denoiser(engine, prompt, params).run();
}

} // namespace buoy
