#include "measure.h"

#include "buoy/device.h"
#include "buoy/weight-type.h"
#include "record.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <numeric>

#include <sys/resource.h>

namespace {

using buoy::Context;
using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Passes everything on and keeps the time that passes take.
class TimedContext : public Context {
public:
    explicit TimedContext(Context & context) : context_(context) {}

    using Context::forward;

    const buoy::Model & model() const override { return context_.model(); }

    const std::vector<buoy::ForwardResult> & forward(std::span<const buoy::ForwardRequest> batch) override {
        const auto   start   = Clock::now();
        const auto & results = context_.forward(batch);
        forward_ms_ += ms_since(start);
        return results;
    }

    void    kv_truncate(int32_t sequence, int32_t first) override { context_.kv_truncate(sequence, first); }
    int32_t n_ctx() const override { return context_.n_ctx(); }
    const buoy::ContextParams & params() const override { return context_.params(); }
    buoy::ContextStats          stats() const override { return context_.stats(); }

    double forward_ms() const { return forward_ms_; }

private:
    Context & context_;
    double    forward_ms_ = 0.0;
};

// The products of the passes since it was made, for one of them.
class WorkCounter {
public:
    explicit WorkCounter(const Context & context) : context_(context), before_(context.stats()) {}

    buoy::ProductWork per_pass() const {
        const buoy::ContextStats after = context_.stats();
        const int64_t            n     = std::max<int64_t>(after.n_forward - before_.n_forward, 1);
        const buoy::ProductWork &a = after.work, &b = before_.work;
        return {(a.quantised - b.quantised) / n, (a.f16 - b.f16) / n, (a.bf16 - b.bf16) / n, (a.f32 - b.f32) / n,
                (a.weight_bytes - b.weight_bytes) / static_cast<uint64_t>(n)};
    }

private:
    const Context &    context_;
    buoy::ContextStats before_;
};

// Ids all over the vocabulary, the same for every run; never the mask.
std::vector<int32_t> make_prompt(int32_t n, const buoy::ModelInfo & info) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; static_cast<int32_t>(ids.size()) < n; i++) {
        const auto id = static_cast<int32_t>((i * 7919 + 17) % info.n_vocab);
        if (id != info.traits.mask_id) {
            ids.push_back(id);
        }
    }
    return ids;
}

std::vector<int32_t> range(int32_t from, int32_t to) {
    std::vector<int32_t> all(static_cast<size_t>(to - from));
    std::iota(all.begin(), all.end(), from);
    return all;
}

uint64_t peak_resident() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
#ifdef __APPLE__
    return static_cast<uint64_t>(usage.ru_maxrss);
#else
    return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
#endif
}

double shortest_pass(Context & context, const buoy::ForwardRequest & request) {
    double best = 0.0;
    for (int i = 0; i < 6; i++) { // the first builds the graph
        const auto start = Clock::now();
        context.forward(request);
        const double ms = ms_since(start);
        best            = i <= 1 ? ms : std::min(best, ms);
    }
    return best;
}

// Reducing rows happens inside the pass: its time is what a pass with summaries takes longer than one that stops at the
// logits, whose copy to the host does not count.
double measure_summary(Context & context, int32_t n_rows) {
    buoy::ForwardRequest request;
    request.tokens         = make_prompt(n_rows, context.info());
    request.rows           = range(0, n_rows);
    request.output         = buoy::OutputKind::summary;
    const double summaries = shortest_pass(context, request);
    request.output         = buoy::OutputKind::logits;
    const double logits    = shortest_pass(context, request);

    const std::vector<float> & from = context.forward(request).logits;
    std::vector<float>         to(from.size());
    double                     copy = 0.0;
    for (int i = 0; i < 4; i++) {
        const auto start = Clock::now();
        std::copy(from.begin(), from.end(), to.begin());
        const double ms = ms_since(start);
        copy            = i <= 1 ? ms : std::min(copy, ms);
    }
    return std::max(0.0, summaries - (logits - copy));
}

// Several texts whose passes are shared: their time is that of all of them.
void measure_batch(Context & context, const Case & one, const MeasureParams & params, Measurement & out) {
    std::vector<buoy::BatchItem> items;
    for (int32_t i = 0; i < one.n_parallel; i++) {
        std::vector<int32_t> prompt = make_prompt(one.n_prompt + i, context.info());
        prompt.erase(prompt.begin(), prompt.begin() + i); // each its own
        items.push_back({std::move(prompt), one.generate});
    }
    const WorkCounter work(context);
    for (int i = params.warmup ? -1 : 0; i < params.repetitions; i++) {
        const int64_t n_before = context.stats().n_forward;
        const auto    start    = Clock::now();
        const auto    texts    = buoy::generate_batch(context, items);
        const double  ms       = ms_since(start);
        if (i < 0) {
            continue;
        }
        out.samples_ms.push_back(ms);
        out.n_forward  = context.stats().n_forward - n_before;
        out.forward_ms = ms / static_cast<double>(out.n_forward);
        out.n_tokens   = 0;
        for (const buoy::Generation & text : texts) {
            out.n_tokens += static_cast<int64_t>(text.tokens.size());
        }
    }
    out.work = work.per_pass();
}

void measure_generation(Context & context, const Case & one, const MeasureParams & params, Measurement & out) {
    const std::vector<int32_t> prompt = make_prompt(one.n_prompt, context.info());
    if (params.warmup) {
        buoy::GenerateParams first = one.generate;
        first.on_step              = [](const buoy::StepReport &, const std::vector<int32_t> &) { return false; };
        buoy::generate(context, prompt, first);
    }
    TimedContext      timed(context);
    const WorkCounter work(context);
    int64_t           n_forward  = 0;
    double            plain_ms   = std::numeric_limits<double>::infinity();
    uint64_t          plain_peak = 0;
    for (int i = 0; i < params.repetitions; i++) {
        if (one.attn) {
            const buoy::Generation plain = buoy::generate(context, prompt, one.generate);
            plain_ms                     = std::min(plain_ms, plain.prompt_ms + plain.decode_ms);
            plain_peak                   = i == 0 ? peak_resident() : plain_peak;
        }
        const buoy::Generation generation =
            one.attn ? generate_recorded(timed, one, prompt) : buoy::generate(timed, prompt, one.generate);
        out.samples_ms.push_back(generation.prompt_ms + generation.decode_ms);
        out.n_tokens  = static_cast<int64_t>(generation.tokens.size());
        out.n_forward = generation.n_forward;
        n_forward += generation.n_forward;
    }
    out.work       = work.per_pass();
    out.forward_ms = n_forward > 0 ? timed.forward_ms() / static_cast<double>(n_forward) : 0.0;
    if (one.attn) {
        out.attn_ratio = *std::min_element(out.samples_ms.begin(), out.samples_ms.end()) / plain_ms;
        out.attn_bytes = peak_resident() - plain_peak;
    }
    if (params.profile) {
        const int32_t n_rows = one.generate.block_length > 0 ? one.generate.block_length : one.generate.n_predict;
        out.summary_ms       = measure_summary(context, std::min(n_rows, one.generate.n_predict));
    }
}

// None: the whole sequence is computed, its last rows are asked for. Dual: it is stored once, then its last tokens are
// computed against it, as a step inside a block does.
void measure_pass(Context & context, const Case & one, const MeasureParams & params, Measurement & out) {
    const int32_t        T = one.forward_tokens;
    const int32_t        R = one.forward_rows > 0 ? one.forward_rows : T;
    buoy::ForwardRequest request;
    request.tokens = make_prompt(T, context.info());
    request.rows   = range(T - R, T);
    request.output = buoy::OutputKind::summary;
    if (one.generate.cache.value_or(buoy::DiffusionCache::none) != buoy::DiffusionCache::none) {
        request.kv = buoy::KvUse::store;
        context.forward(request);
        request.tokens.erase(request.tokens.begin(), request.tokens.end() - R);
        request.positions = range(T - R, T);
        request.rows      = range(0, R);
    }
    if (params.warmup) {
        context.forward(request);
    }
    const WorkCounter work(context);
    for (int i = 0; i < params.repetitions; i++) {
        const auto start = Clock::now();
        context.forward(request);
        out.samples_ms.push_back(ms_since(start));
        out.forward_ms += out.samples_ms.back() / params.repetitions;
    }
    out.n_forward = 1;
    out.work      = work.per_pass();
}

} // namespace

Measurement measure(const Case & one, const MeasureParams & params) {
    Measurement         out;
    buoy::ContextParams context_params = one.context;
    context_params.n_ctx       = one.forward_tokens > 0 ? one.forward_tokens : one.n_prompt + one.generate.n_predict;
    context_params.n_sequences = buoy::sequence_count(one.generate) * one.n_parallel;

    buoy::ModelParams model = one.model;
    model.n_threads         = one.context.n_threads;
    buoy::prepare_devices({.exact = one.context.flash == buoy::FlashAttention::off});
    buoy::add_rpc_servers(one.rpc);
    const auto                           start = Clock::now();
    const buoy::ModelFile                file(one.model_path);
    const std::unique_ptr<buoy::Context> context = buoy::load_context(file, model, context_params);
    out.load_ms                                  = ms_since(start);
    out.arch                                     = context->info().arch;
    out.type                                     = buoy::weight_type(file);
    out.weight_bytes                             = context->info().n_bytes;
    if (one.forward_tokens > 0) {
        measure_pass(*context, one, params, out);
    } else if (one.n_parallel > 1) {
        measure_batch(*context, one, params, out);
    } else {
        measure_generation(*context, one, params, out);
    }
    out.kv_bytes      = context->stats().kv_bytes;
    out.compute_bytes = context->stats().compute_bytes;
    out.peak_bytes    = peak_resident();
    out.n_threads     = context->stats().n_threads_last;
    return out;
}
