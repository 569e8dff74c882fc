#include "load.h"

#include "buoy/error.h"
#include "buoy/step-count.h"
#include "chat.h"
#include "loading.h"

#include <algorithm>
#include <limits>

std::unique_ptr<buoy::Context> load_context(const buoy::ModelFile & file, const CliParams & params) {
    return load_with_bar(
        params.model, [&](const buoy::ModelParams & model) { return buoy::load_context(file, model, params.context); });
}

void warn(const CliParams & params, const Console & console, const buoy::ModelInfo & info) {
    if (!info.traits.is_diffusion() && !params.denoising_flags.empty()) {
        std::string names;
        for (const std::string & name : params.denoising_flags) {
            names += (names.empty() ? "" : ", ") + name;
        }
        console.log(buoy::LogLevel::warn,
                    buoy::concat(info.arch, " is an autoregressive model; these flags have no effect: ", names));
    }
    const auto given = [&](const std::string & name) {
        return std::find(params.denoising_flags.begin(), params.denoising_flags.end(), name) !=
               params.denoising_flags.end();
    };
    for (const auto & [flag, needed] : {std::make_pair("--diffusion-post-steps", "--diffusion-edit-threshold"),
                                        std::make_pair("--diffusion-cache-refresh", "--diffusion-cache")}) {
        if (info.traits.is_diffusion() && given(flag) && !given(needed)) {
            console.log(buoy::LogLevel::warn, buoy::concat(flag, " has no effect without ", needed));
        }
    }
    if (info.traits.is_diffusion() && params.visual_delay && !params.visual && params.visual_out.empty()) {
        console.log(buoy::LogLevel::warn,
                    "--diffusion-visual-delay has no effect without --diffusion-visual or --diffusion-visual-out");
    }
}

void warn_long(const CliParams & params, const Console & console, const buoy::Context & context,
               const std::vector<int32_t> & prompt) {
    const buoy::ModelInfo & info      = context.info();
    buoy::GenerateParams    generate  = params.generate;
    const bool              generates = !params.chat && params.logits_out.empty();
    generate.n_predict = generates ? buoy::answer_length(generate, prompt.size(), context.n_ctx(), info) : 0;
    const int64_t n_positions =
        params.chat ? context.n_ctx() : static_cast<int64_t>(prompt.size()) + generate.n_predict;
    if (info.n_ctx_train <= 0 || n_positions <= info.n_ctx_train || params.replay) { // a case is as long as it is
        return;
    }
    std::string cost;
    if (generates) {
        const int64_t n_passes = buoy::step_count_max(info, prompt, generate) * buoy::sequence_count(generate);
        const bool    whole    = info.traits.attention == buoy::AttentionKind::full && !info.traits.two_modes &&
                           generate.cache.value_or(buoy::DiffusionCache::none) == buoy::DiffusionCache::none;
        cost = buoy::concat("; the run takes up to ", n_passes, " passes",
                            whole ? buoy::concat(" over all ", n_positions, " positions") : std::string());
    }
    console.log(buoy::LogLevel::warn, buoy::concat(params.chat ? "the context has " : "prompt and answer take ",
                                                   n_positions, " positions, but the model was trained for ",
                                                   info.n_ctx_train, ", so the text may be poor", cost));
}

Request make_request(const CliParams & params, const buoy::Vocab & vocab) {
    Request request;
    if (params.chat) {
        check_can_chat(params, vocab);
    } else if (!params.infill) {
        request.prompt = make_prompt(params, vocab);
    } else if (vocab.mask() < 0) {
        buoy::fail("--infill: ", buoy::printable(params.model_path),
                   " has no mask token; only diffusion models can fill gaps");
    } else {
        request.infill.emplace(vocab, vocab.mask(), read_prompt(params), params.parses_special());
        request.prompt.tokens = request.infill->tokens();
    }
    return request;
}

void complete(CliParams & params, const buoy::ModelFile & file, const buoy::Vocab & vocab, const Request & request) {
    const size_t n_prompt  = request.prompt.tokens.size();
    const bool   generates = !params.chat && params.logits_out.empty();
    if (params.context.n_ctx == 0 && !params.chat && params.generate.n_predict >= 0) {
        const int64_t n_train  = buoy::trained_length(file);
        const int64_t n_free   = std::max<int64_t>(n_train - static_cast<int64_t>(n_prompt), 1);
        const bool    is_most  = params.generate.auto_length && n_train > 0; // then it is cut to what fits
        const int64_t n_asked  = generates ? params.generate.n_predict : static_cast<int64_t>(params.canvas.size());
        const int64_t n_answer = is_most ? std::min(n_asked, n_free) : n_asked;
        const int64_t n_all    = static_cast<int64_t>(n_prompt) + n_answer;
        if (generates && n_train > 0 && n_all > n_train && !params.replay) { // a published case is as long as it is
            if (request.infill) {
                buoy::fail("the text with its gaps takes ", n_all, " positions, but the model was trained for ",
                           n_train, "; use smaller gaps, or -c ", n_all, " to run it beyond that length");
            }
            buoy::fail("prompt (", n_prompt, ") and answer (", n_answer, ") need ", n_all,
                       " positions, but the model was trained for ", n_train, "; use a smaller -n, or -c ", n_all,
                       " to run it beyond that length");
        }
        const int64_t B        = std::max(params.generate.block_length, 1); // a block-causal model's last one is whole
        const int64_t n_spare  = generates ? buoy::spare_length(file, params.generate) : 0;
        const int64_t n_needed = (std::max<int64_t>(n_all + n_spare, 1) + B - 1) / B * B;
        params.context.n_ctx   = static_cast<int32_t>(std::min<int64_t>(n_needed, std::numeric_limits<int32_t>::max()));
    } else if (params.context.n_ctx > 0 && generates) {
        buoy::answer_length(params.generate, n_prompt, params.context.n_ctx);
    }
    if (params.generate.thinking_budget && params.generate.end_think_id < 0) {
        const std::vector<int32_t> ids = vocab.encode("</think>", false, true);
        if (ids.size() != 1) {
            buoy::fail("--thinking-budget: the model has no token </think>");
        }
        params.generate.end_think_id = ids[0];
    }
    if (!params.ignore_eos && !params.infill) {
        params.generate.end_ids = vocab.end_ids();
    }
    if (request.infill && !request.infill->ends_with_gap()) { // a gap in the middle is not the end of the text
        for (const int32_t id : vocab.end_ids()) {
            params.generate.logit_bias.emplace(id, -std::numeric_limits<float>::infinity());
        }
    }
    if (!params.attn.edits.empty() && params.context.flash == buoy::FlashAttention::automatic) {
        params.context.flash = buoy::FlashAttention::off; // else an edited layer differs in rounding as well
    }
    params.context.n_sequences = params.logits_out.empty() ? buoy::sequence_count(params.generate) : 1;
}
