#include "load.h"

#include "buoy/error.h"
#include "chat.h"
#include "interrupt.h"
#include "progress.h"

#include <algorithm>
#include <limits>

std::unique_ptr<buoy::Context> load_context(const buoy::ModelFile & file, const CliParams & params) {
    Progress          progress("loading");
    buoy::ModelParams model = params.model;
    model.progress          = [&](float share) {
        progress.update(share);
        return !interrupted();
    };
    try {
        std::unique_ptr<buoy::Context> context =
            interrupted() ? nullptr : buoy::load_context(file, model, params.context);
        return interrupted() ? nullptr : std::move(context);
    } catch (const buoy::Error &) {
        if (interrupted()) {
            return nullptr;
        }
        throw;
    }
}

void warn(const CliParams & params, const Console & console, const buoy::ModelInfo & info, int64_t n_positions) {
    if (!info.traits.is_diffusion() && !params.denoising_flags.empty()) {
        std::string names;
        for (const std::string & name : params.denoising_flags) {
            names += (names.empty() ? "" : ", ") + name;
        }
        console.log(buoy::LogLevel::warn,
                    buoy::concat(info.arch, " is an autoregressive model, so these have no effect: ", names));
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
    if (info.n_ctx_train > 0 && n_positions > info.n_ctx_train) {
        console.log(buoy::LogLevel::warn,
                    buoy::concat(params.chat ? "the context has " : "prompt and answer take ", n_positions,
                                 " positions, the model was trained for ", info.n_ctx_train));
    }
}

Request make_request(const CliParams & params, const buoy::Vocab & vocab) {
    Request request;
    if (params.chat) {
        check_can_chat(params, vocab);
    } else if (!params.infill) {
        request.prompt = make_prompt(params, vocab);
    } else if (vocab.mask() < 0) {
        buoy::fail("--infill: ", buoy::printable(params.model_path),
                   " has no mask token; only diffusion models fill gaps");
    } else {
        request.infill.emplace(vocab, vocab.mask(), read_prompt(params));
        request.prompt.tokens = request.infill->tokens();
    }
    return request;
}

void complete(CliParams & params, const buoy::Vocab & vocab, size_t n_prompt) {
    const bool generates = !params.chat && params.logits_out.empty();
    if (params.context.n_ctx == 0 && !params.chat && params.generate.n_predict >= 0) {
        const int64_t B = std::max(params.generate.block_length, 1); // a block-causal model's last one is whole
        const int64_t n_needed =
            (static_cast<int64_t>(n_prompt) + std::max(params.generate.n_predict, 1) + B - 1) / B * B;
        params.context.n_ctx = static_cast<int32_t>(std::min<int64_t>(n_needed, std::numeric_limits<int32_t>::max()));
    } else if (params.context.n_ctx > 0 && generates) {
        buoy::answer_length(params.generate, n_prompt, params.context.n_ctx);
    }
    if (!params.ignore_eos && !params.infill) { // a gap in the middle is not the end of the text
        params.generate.end_ids = vocab.end_ids();
    }
    if (!params.attn.edits.empty() && params.context.flash == buoy::FlashAttention::automatic) {
        params.context.flash = buoy::FlashAttention::off; // else an edited layer differs in rounding as well
    }
    params.context.n_sequences = params.logits_out.empty() ? buoy::sequence_count(params.generate) : 1;
}
