#include "calibrate.h"

#include "buoy/context.h"
#include "buoy/message.h"
#include "buoy/vocab.h"
#include "hf-config.h"
#include "imatrix-collector.h"
#include "io/json-file.h"
#include "masked-text.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <sstream>

namespace buoy {

namespace {

// A model with a text cut for it.
struct Run {
    std::unique_ptr<Context> context;
    std::vector<MaskedChunk> chunks;
};

// A line each: {"prompt": …, "answer": …}, as the model's chat template puts them.
std::vector<MaskedChunk> read_answers(const CalibrateParams & params, const Vocab & vocab, const Traits & traits) {
    std::vector<MaskedChunk> chunks;
    std::istringstream       lines(load_text(params.text));
    for (std::string line; std::getline(lines, line);) {
        if (line.empty() || (params.n_max > 0 && static_cast<int32_t>(chunks.size()) == params.n_max)) {
            continue;
        }
        const HfJson pair(printable(params.text), parse_json(line, printable(params.text)));
        const auto   prompt = pair.json().is_object() ? pair.find_string({"prompt"}) : std::nullopt;
        const auto   answer = pair.json().is_object() ? pair.find_string({"answer"}) : std::nullopt;
        if (!prompt || !answer) {
            fail(printable(params.text), ": a line without a prompt or an answer");
        }
        std::vector<int32_t>       tokens   = vocab.has_chat_template() ? vocab.encode_chat({{"user", *prompt}}, true)
                                                                        : vocab.encode(*prompt, true, false);
        const size_t               n_prompt = tokens.size();
        const std::vector<int32_t> rest     = vocab.encode(*answer, false, false);
        tokens.insert(tokens.end(), rest.begin(), rest.end());
        if (tokens.size() > static_cast<size_t>(params.n_chunk)) {
            fail(printable(params.text), ": a prompt and answer of ", tokens.size(), " tokens, a chunk has ",
                 params.n_chunk);
        }
        chunks.push_back(mask_answer(std::move(tokens), n_prompt, traits, params.seed + chunks.size()));
    }
    return chunks;
}

Run prepare(const CalibrateParams & params, Kernels kernels) {
    if (params.n_chunk < 2) {
        fail("a chunk of ", params.n_chunk, " tokens, expected 2 or more");
    }
    ModelParams model;
    model.n_gpu_layers = 0;
    model.kernels      = kernels;
    model.log          = params.log;
    ContextParams context;
    context.n_ctx     = params.n_chunk;
    context.n_threads = params.n_threads;

    const ModelFile file(params.model);
    const Vocab     vocab = file.vocab();
    Run             run;
    if (std::filesystem::path(params.text).extension() == ".jsonl") {
        run.context = load_context(file, model, context);
        run.chunks  = read_answers(params, vocab, run.context->info().traits);
        return run;
    }
    const std::vector<int32_t> tokens = vocab.encode(load_text(params.text), true, false);
    if (tokens.size() < 2) {
        fail(printable(params.text), ": ", tokens.size(), " tokens, expected 2 or more");
    }
    run.context           = load_context(file, model, context);
    const int32_t n_train = run.context->info().n_ctx_train;
    const int32_t n_chunk = n_train > 1 ? std::min(params.n_chunk, n_train) : params.n_chunk;
    run.chunks            = mask_text(tokens, run.context->info().traits, n_chunk, params.n_max, params.seed);
    return run;
}

// The row that says position i's token.
int32_t row_of(int32_t i, const Traits & traits) { return traits.shift ? i - 1 : i; }

double cross_entropy(const float * logits, int32_t n_vocab, int32_t target) {
    const float largest = *std::max_element(logits, logits + n_vocab);
    double      sum     = 0;
    for (int32_t i = 0; i < n_vocab; ++i) {
        sum += std::exp(static_cast<double>(logits[i] - largest));
    }
    return std::log(sum) + static_cast<double>(largest) - static_cast<double>(logits[target]);
}

void advance(const CalibrateParams & params, size_t done, size_t total) {
    if (params.progress && !params.progress(done, total)) {
        fail_runtime(printable(params.model), ": cancelled");
    }
}

} // namespace

ImatrixReport make_imatrix(const CalibrateParams & params) {
    const Run        run = prepare(params, Kernels::ggml); // every product by ggml, as llama.cpp's imatrix sees them
    ImatrixCollector collector;
    Observer         observer;
    observer.products = [&](const ProductEvent & event) { collector.add(event); };
    ImatrixReport report;
    size_t        n_chunk = 0;
    for (const MaskedChunk & chunk : run.chunks) {
        ForwardRequest request;
        request.tokens = chunk.tokens;
        request.rows.resize(chunk.tokens.size());
        std::iota(request.rows.begin(), request.rows.end(), 0);
        request.observers.push_back(observer);
        run.context->forward(request);
        report.n_tokens += chunk.tokens.size();
        n_chunk = std::max(n_chunk, chunk.tokens.size());
        advance(params, ++report.n_chunks, run.chunks.size());
    }
    collector.check(params.model);
    report.n_tensors = collector.sums().size();
    save_imatrix(params.output, params.force, collector.sums(), std::filesystem::path(params.text).filename().string(),
                 report.n_chunks, static_cast<uint32_t>(n_chunk));
    return report;
}

LossReport measure_loss(const CalibrateParams & params) {
    const Run         run    = prepare(params, Kernels::automatic);
    const ModelInfo & info   = run.context->info();
    double            sum    = 0;
    double            square = 0;
    size_t            n_done = 0;
    LossReport        report;
    for (const MaskedChunk & chunk : run.chunks) {
        ForwardRequest request;
        request.tokens = chunk.tokens;
        for (const int32_t i : chunk.hidden) {
            request.rows.push_back(row_of(i, info.traits));
        }
        if (!request.rows.empty()) {
            const ForwardResult & result = run.context->forward(request);
            for (size_t i = 0; i < chunk.targets.size(); ++i) {
                const double loss = cross_entropy(result.logits.data() + i * static_cast<size_t>(info.n_vocab),
                                                  info.n_vocab, chunk.targets[i]);
                sum += loss;
                square += loss * loss;
            }
            report.n_hidden += chunk.targets.size();
        }
        advance(params, ++n_done, run.chunks.size());
    }
    const auto n = static_cast<double>(report.n_hidden);
    if (report.n_hidden < 2) {
        fail(printable(params.text), ": ", report.n_hidden, " tokens were hidden, expected 2 or more");
    }
    report.loss  = sum / n;
    report.error = std::sqrt(std::max(0.0, square / n - report.loss * report.loss) / n);
    return report;
}

} // namespace buoy
