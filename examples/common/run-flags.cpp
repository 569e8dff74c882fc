#include "run-flags.h"

#include "buoy/device.h"
#include "buoy/frequency-table.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace {

// Other spellings of a flag's values, llama.cpp's, which the help need not list.
template <typename T>
void also_takes(Flag & flag, T & target, const std::vector<std::pair<std::string, T>> & spellings) {
    flag.set = [&target, spellings, set = flag.set](const std::string & where, const std::string & text) {
        for (const auto & [spelling, value] : spellings) {
            if (text == spelling) {
                target = value;
                return;
            }
        }
        set(where, text);
    };
}

// ID+BIAS or ID-BIAS.
std::pair<int32_t, float> parse_bias(const std::string & where, const std::string & text) {
    const size_t sign = std::min(text.find_first_of("+-", 1), text.size());
    const auto   id   = buoy::parse_number<int32_t>(text.substr(0, sign));
    const bool   plus = sign < text.size() && text[sign] == '+';
    const auto   bias = buoy::parse_number<float>(text.substr(plus ? sign + 1 : sign));
    if (!id || *id < 0 || !bias || std::isnan(*bias) || (plus && std::signbit(*bias))) {
        buoy::fail(where, ": ", buoy::in_quotes(text), " is not ID+BIAS or ID-BIAS");
    }
    if (*bias > 0.0f && std::isinf(*bias)) {
        buoy::fail(where, ": ", buoy::in_quotes(text), ": a bias can be -inf, but not +inf; 1000 forces a token");
    }
    return {*id, *bias};
}

// "origin, entropy (or 0 to 1), eb"
std::string algorithm_list() {
    const std::vector<buoy::AlgorithmInfo> all = buoy::algorithms();
    std::string                            text;
    for (size_t i = 0; i < all.size(); i++) {
        text += (i > 0 ? ", " : "") + std::string(all[i].name);
        if (all[i].number >= 0 && (i + 1 == all.size() || all[i + 1].number < 0)) {
            text += " (or 0 to " + std::to_string(all[i].number) + ")";
        }
    }
    return text;
}

std::vector<std::string> algorithm_names() {
    std::vector<std::string> names;
    for (const buoy::AlgorithmInfo & algorithm : buoy::algorithms()) {
        names.emplace_back(algorithm.name);
    }
    return names;
}

} // namespace

void add_sampling_flags(FlagTable & table, RunParams & o) {
    buoy::GenerateParams & g        = o.generate;
    const auto             set_bias = [&g](const std::string & where, const std::string & text) {
        const auto [id, bias] = parse_bias(where, text);
        g.logit_bias[id]      = bias;
    };
    table.group("Sampling");
    table
        .number("-n, --n-predict, --predict", "N", g.n_predict, {-1, whole_max},
                "tokens to generate after the prompt; -1: as many as fit into the context")
        .with_env("LLAMA_ARG_N_PREDICT")
        .with_setting("n_predict");
    table.number("-s, --seed", "N", o.seed, {-1, 9e18}, "seed of the random numbers; -1 draws one and tells it")
        .with_env("LLAMA_ARG_SEED");
    table.number("--temp, --temperature", "T", g.temperature, {0, 1000}, "temperature; 0 takes the most likely token")
        .with_env("LLAMA_ARG_TEMPERATURE");
    table.number("--top-k", "N", g.top_k, {0, whole_max}, "sample from the N most likely tokens; 0: all")
        .with_env("LLAMA_ARG_TOP_K");
    table.number("--top-p", "P", g.top_p, {0, 1, true}, "sample from the most likely tokens that together have P")
        .with_env("LLAMA_ARG_TOP_P");
    table.number("--min-p", "P", g.min_p, {0, 1}, "sample from tokens at least P times as likely as the best")
        .with_env("LLAMA_ARG_MIN_P");
    table
        .call("--logit-bias", "ID(+|-)BIAS", set_bias,
              "make a token more or less likely, 15043+1 or 15043-inf; can be repeated")
        .repeatable = true;
    table.toggle("--ignore-eos", o.ignore_eos, true, "go on after an end token instead of ending the text there");
}

void add_denoising_flags(FlagTable & table, RunParams & o) {
    buoy::GenerateParams & g             = o.generate;
    const auto             set_algorithm = [&g](const std::string & where, const std::string & text) {
        try {
            g.algorithm = buoy::parse_algorithm(text);
        } catch (const buoy::Error & error) {
            buoy::fail(where, ": ", error.what());
        }
    };
    table.group("Diffusion");
    table.number("--diffusion-steps", "N", g.steps, {1, whole_max}, "denoising steps in all")
        .with_default("one token a step");
    table.number("--diffusion-steps-per-block", "N", g.steps_per_block, {1, whole_max}, "the same, counted per block")
        .with_default("");
    table
        .number("--diffusion-block-length", "N", g.block_length, {1, whole_max},
                "length of the blocks that are written one after the other")
        .with_default("the model's, else all of -n");
    table
        .number("--diffusion-eps", "F", g.eps, {0, 0.999, true},
                "Dream's timesteps, from 1 down to F, instead of blocks; with a cache, in each block")
        .with_default("0.001 for models made for it");
    table.call("--diffusion-algorithm", "NAME", set_algorithm, "which position is written first: " + algorithm_list())
        .with_values(algorithm_names())
        .with_default("entropy for shifted models with full attention, else confidence");
    table.number("--diffusion-alg-temp", "T", g.alg_temp, {0, 1000},
                 "draw positions by their scores at this temperature; 0: the best");
    table.number("--diffusion-cfg-scale", "W", g.cfg_scale, {0, 1000}, "classifier-free guidance; 0: none");
    table.number("--diffusion-threshold", "P", g.threshold, {0, 1},
                 "write every position at least that sure, and one at least");
    table.number("--diffusion-factor", "F", g.factor, {0, 1e6},
                 "write the n surest positions while (n+1)(1-confidence) < F");
    table.text("--diffusion-pc-table", "FILE", o.pc_table,
               "token frequencies for pc and pc-linear, as tokens-freq makes them");
    table.number("--diffusion-pc-lambda", "F", g.pc_lambda, {0, 1e6}, "how strongly pc prefers a block's beginning");
    table.number("--diffusion-pc-alpha", "F", g.pc_alpha, {0, 1e6}, "largest score that pc gives");
    table.number("--diffusion-eb-gamma", "F", g.eb_gamma, {0, 1e6}, "entropy that eb allows in one step, in nats");
    table
        .choice("--diffusion-cache", buoy::cache_names, g.cache,
                "keys and values reused between steps: none, those before the block, or all but "
                "the block's; exact before blocks of block-causal models")
        .with_default("prefix for block-causal models, else none");
    table
        .number("--diffusion-cache-refresh", "N", g.cache_refresh, {1, whole_max},
                "compute everything again after N steps of a block")
        .with_default("");
    table
        .number("--diffusion-sub-block-length", "N", g.sub_block_length, {1, whole_max},
                "write a block in parts of N (block-causal models)")
        .with_default("the model's");
    table.number("--diffusion-edit-threshold", "P", g.edit_threshold, {0, 1},
                 "replace written tokens by others surer than that (block-causal models such as LLaDA2.1)");
    table.number("--diffusion-post-steps", "N", g.post_steps, {0, whole_max},
                 "steps that may only edit, once a block has no masks");
}

void add_compute_flags(FlagTable & table, RunParams & o, const std::string & context_default) {
    using buoy::FlashAttention;
    table.group("Compute");
    Flag & threads = table.number("-t, --threads", "N", o.context.n_threads, {1, threads_max},
                                  "threads; -1: as many as the work is worth, at most one per core");
    threads.with_default("-1").with_env("LLAMA_ARG_THREADS");
    also_takes(threads, o.context.n_threads, {{"-1", 0}});
    Flag & context = table.number("-c, --ctx-size", "N", o.context.n_ctx, {1, whole_max},
                                  "context length in tokens; 0: what the model was trained for");
    context.with_default(context_default).with_env("LLAMA_ARG_CTX_SIZE").with_setting("n_ctx");
    also_takes(context, o.context.n_ctx, {{"0", -1}});
    add_layers_flag(table, o.model);
    add_device_flags(table, o, o.model);
    Flag & flash = table.choice("-fa, --flash-attn", buoy::flash_names, o.context.flash,
                                "flash attention; off is exact, on Vulkan by products in F32 instead of F16");
    flash.with_env("LLAMA_ARG_FLASH_ATTN").with_setting("flash");
    also_takes(flash, o.context.flash,
               {{"1", FlashAttention::on},
                {"true", FlashAttention::on},
                {"enabled", FlashAttention::on},
                {"0", FlashAttention::off},
                {"false", FlashAttention::off},
                {"disabled", FlashAttention::off},
                {"-1", FlashAttention::automatic}});
    table.choice("-ctk, --cache-type-k", buoy::kv_type_names, o.context.type_k, "type of stored keys")
        .with_env("LLAMA_ARG_CACHE_TYPE_K");
    table.choice("-ctv, --cache-type-v", buoy::kv_type_names, o.context.type_v, "type of stored values")
        .with_env("LLAMA_ARG_CACHE_TYPE_V");
    table
        .choice("--unpack", buoy::unpack_names, o.model.unpack,
                "dequantise the weights at load: more memory, activations keep 16 bits; auto: for a diffusion "
                "model on a CPU whose types have no kernel of ours, if that takes at most half of the free "
                "memory")
        .with_setting("unpack");
    table.toggle("--no-mmap", o.model.use_mmap, false, "copy the weights instead of mapping the file")
        .with_env("LLAMA_ARG_NO_MMAP");
    table.toggle("-nr, --no-repack", o.model.use_repack, false, "keep the file's weight layout on the CPU")
        .with_env("LLAMA_ARG_NO_REPACK");
}

void settle(RunParams & o) {
    settle_devices(o, o.model);
    buoy::prepare_devices({.exact = o.context.flash == buoy::FlashAttention::off});
    o.model.n_threads = o.context.n_threads;
    o.generate.seed   = o.seed >= 0 ? static_cast<uint64_t>(o.seed) : std::random_device{}();
    if (!o.pc_table.empty()) {
        o.generate.pc_table = buoy::load_frequency_table(o.pc_table);
    }
}
