#include "buoy/context.h"
#include "buoy/error.h"
#include "buoy/vocab.h"
#include "verify.h"

#include <algorithm>
#include <numeric>

namespace buoy {

namespace {

constexpr const char * PROMPT =
    "The quick brown fox jumps over the lazy dog. In 1969, two people walked on the Moon; 3.14 is close to pi.";

std::vector<float> logits_of(const std::string & path, const std::vector<int32_t> & tokens, int n_threads) {
    ModelParams model;
    model.n_gpu_layers = 0;
    ContextParams params;
    params.n_threads                       = n_threads;
    params.flash                           = FlashAttention::off;
    params.n_ctx                           = static_cast<int32_t>(tokens.size());
    const std::unique_ptr<Context> context = load_context(path, model, params);

    ForwardRequest request;
    request.tokens = tokens;
    request.rows.resize(tokens.size());
    std::iota(request.rows.begin(), request.rows.end(), 0);
    return context->forward(request).logits;
}

} // namespace

LogitsError compare_logits(const std::string & exact_path, const std::string & path, int n_threads) {
    const Vocab          vocab  = Vocab::load(path);
    std::vector<int32_t> tokens = vocab.encode(PROMPT, true, false);
    for (size_t i = 3; i < tokens.size() && vocab.mask() >= 0; i += 4) {
        tokens[i] = vocab.mask();
    }
    const std::vector<float> expected = logits_of(exact_path, tokens, n_threads);
    const std::vector<float> found    = logits_of(path, tokens, n_threads);
    const size_t             n_vocab  = expected.size() / tokens.size();

    LogitsError result;
    double      error = 0;
    double      total = 0;
    for (size_t row = 0; row < tokens.size(); ++row) {
        const float * a = expected.data() + row * n_vocab;
        const float * b = found.data() + row * n_vocab;
        for (size_t i = 0; i < n_vocab; ++i) {
            const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
            error += difference * difference;
            total += static_cast<double>(a[i]) * static_cast<double>(a[i]);
        }
        result.n_agree += std::max_element(a, a + n_vocab) - a == std::max_element(b, b + n_vocab) - b ? 1 : 0;
        result.n_rows += 1;
    }
    result.nmse = error == 0 ? 0 : error / total;
    return result;
}

} // namespace buoy
