#include "load.h"
#include "base/fail.h"

#include "base/printable.h"
#include "buoy/error.h"
#include "chat.h"
#include "interrupt.h"
#include "progress.h"

#include <algorithm>
#include <limits>

std::unique_ptr<buoy::Context> load_context(const buoy::ModelFile & file, const Options & options) {
    Progress          progress("loading");
    buoy::ModelParams model = options.model;
    model.progress          = [&](float share) {
        progress.update(share);
        return !interrupted();
    };
    try {
        std::unique_ptr<buoy::Context> context =
            interrupted() ? nullptr : buoy::load_context(file, model, options.context);
        return interrupted() ? nullptr : std::move(context);
    } catch (const buoy::Error &) {
        if (interrupted()) {
            return nullptr;
        }
        throw;
    }
}

void warn(const Options & options, const Console & console, const buoy::ModelInfo & info, int64_t n_positions) {
    if (!info.traits.is_diffusion() && !options.denoising_flags.empty()) {
        std::string names;
        for (const std::string & name : options.denoising_flags) {
            names += (names.empty() ? "" : ", ") + name;
        }
        console.log(buoy::LogLevel::warn,
                    buoy::concat(info.arch, " is an autoregressive model, so these have no effect: ", names));
    }
    const auto given = [&](const std::string & name) {
        return std::find(options.denoising_flags.begin(), options.denoising_flags.end(), name) !=
               options.denoising_flags.end();
    };
    for (const auto & [flag, needed] : {std::make_pair("--diffusion-post-steps", "--diffusion-edit-threshold"),
                                        std::make_pair("--diffusion-cache-refresh", "--diffusion-cache")}) {
        if (info.traits.is_diffusion() && given(flag) && !given(needed)) {
            console.log(buoy::LogLevel::warn, buoy::concat(flag, " has no effect without ", needed));
        }
    }
    if (info.n_ctx_train > 0 && n_positions > info.n_ctx_train) {
        console.log(buoy::LogLevel::warn,
                    buoy::concat(options.chat ? "the context has " : "prompt and answer take ", n_positions,
                                 " positions, the model was trained for ", info.n_ctx_train));
    }
}

Request make_request(const Options & options, const buoy::Vocab & vocab) {
    Request request;
    if (options.chat) {
        check_can_chat(options, vocab);
    } else if (!options.infill) {
        request.prompt = make_prompt(options, vocab);
    } else if (vocab.mask() < 0) {
        buoy::fail("--infill: ", buoy::printable(options.model_path),
                   " has no mask token; only diffusion models fill gaps");
    } else {
        request.infill.emplace(vocab, vocab.mask(), read_prompt(options));
        request.prompt.tokens = request.infill->tokens();
    }
    return request;
}

void complete(Options & options, const buoy::Vocab & vocab, size_t n_prompt) {
    const bool generates = !options.chat && options.logits_out.empty();
    if (options.context.n_ctx == 0 && !options.chat && options.generate.n_predict >= 0) {
        const int64_t B = std::max(options.generate.block_length, 1); // a block-causal model's last one is whole
        const int64_t n_needed =
            (static_cast<int64_t>(n_prompt) + std::max(options.generate.n_predict, 1) + B - 1) / B * B;
        options.context.n_ctx = static_cast<int32_t>(std::min<int64_t>(n_needed, std::numeric_limits<int32_t>::max()));
    } else if (options.context.n_ctx > 0 && generates) {
        buoy::answer_length(options.generate, n_prompt, options.context.n_ctx);
    }
    if (!options.ignore_eos && !options.infill) { // a gap in the middle is not the end of the text
        options.generate.end_ids = vocab.end_ids();
    }
    if (!options.attn.edits.empty() && options.context.flash == buoy::FlashAttention::automatic) {
        options.context.flash = buoy::FlashAttention::off; // else an edited layer differs in rounding as well
    }
    options.context.n_sequences = options.logits_out.empty() ? buoy::sequence_count(options.generate) : 1;
}
