#include "run-flags.h"

#include "buoy/device.h"
#include "buoy/frequency-table.h"
#include "buoy/preset.h"

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
        buoy::fail(where, ": ", buoy::in_quotes(text), ": a bias can be -inf but not +inf; use +1000 to force a token");
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

int32_t parse_threads(const std::string & where, const std::string & text) {
    constexpr int32_t threads_max = 512; // ggml's
    const auto        number      = buoy::parse_number<int32_t>(text);
    if (!number || *number < -1 || *number > threads_max) {
        buoy::fail(where, ": ", buoy::in_quotes(text), " is not a number of threads from 1 to ", threads_max,
                   ", or 0 to choose automatically");
    }
    return std::max(*number, 0);
}

void add_threads_flag(FlagTable & table, int32_t & n_threads) {
    table
        .call(
            "-t, --threads", "N",
            [&n_threads](const std::string & where, const std::string & text) {
                n_threads = parse_threads(where, text);
            },
            threads_help)
        .with_default("0")
        .with_env("LLAMA_ARG_THREADS");
}

void add_sampling_flags(FlagTable & table, RunParams & o) {
    buoy::GenerateParams & g        = o.generate;
    const auto             set_bias = [&g](const std::string & where, const std::string & text) {
        const auto [id, bias] = parse_bias(where, text);
        g.logit_bias[id]      = bias;
    };
    table.group("Sampling");
    Flag & length = table.number("-n, --n-predict, --predict", "N", g.n_predict, {-1, whole_max},
                                 "number of tokens to generate; -1: until the context is full; auto: a diffusion model "
                                 "finds the length itself (DAEDAL)");
    length.with_env("LLAMA_ARG_N_PREDICT").with_setting("n_predict");
    length.set = [&g, set = length.set](const std::string & where, const std::string & text) {
        constexpr int32_t published = 2048; // DAEDAL's
        g.auto_length               = text == "auto";
        g.n_predict                 = published;
        if (!g.auto_length) {
            set(where, text);
        }
    };
    table.number("--max-predict", "N", o.max_predict, {1, whole_max}, "with -n auto: the most tokens to generate")
        .with_default("2048, or what fits");
    table.number("-s, --seed", "N", o.seed, {-1, 9e18}, "random seed; -1 picks one at random and prints it")
        .with_env("LLAMA_ARG_SEED");
    table
        .number("--temp, --temperature", "T", g.temperature, {0, 1000},
                "sampling temperature; 0 always takes the most likely token")
        .with_env("LLAMA_ARG_TEMPERATURE");
    table.number("--top-k", "N", g.top_k, {0, whole_max}, "sample from the N most likely tokens; 0: all")
        .with_env("LLAMA_ARG_TOP_K");
    table
        .number("--top-p", "P", g.top_p, {0, 1, true},
                "sample from the most likely tokens whose probabilities add up to P")
        .with_env("LLAMA_ARG_TOP_P");
    table
        .number("--min-p", "P", g.min_p, {0, 1}, "sample from tokens at least P times as likely as the most likely one")
        .with_env("LLAMA_ARG_MIN_P");
    table
        .call("--logit-bias", "ID(+|-)BIAS", set_bias,
              "add a bias to a token's logit: 15043+1, or 15043-inf to forbid it; can be repeated")
        .repeatable = true;
    table
        .number("--thinking-budget", "N", g.thinking_budget, {0, whole_max},
                "end the model's thinking after N tokens by writing </think>, unless it did so itself")
        .with_default("none");
    table.toggle("--ignore-eos", o.ignore_eos, true, "continue after an end token instead of stopping there");
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
    const auto set_setting = [&g](const std::string & where, const std::string & text) {
        try {
            buoy::apply_setting(g, text);
        } catch (const buoy::Error & error) {
            buoy::fail(where, ": ", error.what());
        }
    };
    table.group("Diffusion");
    table.choice("--diffusion-preset", buoy::preset_names, g.preset,
                 "how much to approximate for speed, by the model's family; -v shows it as flags, and flags that are "
                 "given take precedence");
    table.number("--diffusion-steps", "N", g.steps, {1, whole_max}, "total number of denoising steps")
        .with_default("one per token");
    table
        .number("--diffusion-steps-per-block", "N", g.steps_per_block, {1, whole_max},
                "number of denoising steps per block")
        .with_default("");
    table
        .number("--diffusion-block-length", "N", g.block_length, {1, whole_max},
                "split the answer into blocks of N tokens, written one after the other")
        .with_default("the model's, or one block of -n tokens");
    table.toggle("--diffusion-append-blocks", g.append_blocks, true,
                 "append blocks to the text one at a time, instead of denoising them within an answer of full length "
                 "(full attention; 32 tokens a block unless --diffusion-block-length is given; iLLaDA)");
    table
        .number("--diffusion-eps", "F", g.eps, {0, 0.999, true},
                "use Dream's timesteps, from 1 down to F, instead of blocks (with a cache: within each block)")
        .with_default("0.001 for models trained that way");
    table
        .call("--diffusion-algorithm", "NAME", set_algorithm,
              "how to choose the positions to write: " + algorithm_list())
        .with_values(algorithm_names())
        .with_default("entropy for shifted models with full attention, otherwise confidence");
    table.number("--diffusion-alg-temp", "T", g.alg_temp, {0, 1000},
                 "sample positions by their scores at this temperature; 0 takes the best");
    table.number("--diffusion-cfg-scale", "W", g.cfg_scale, {0, 1000},
                 "classifier-free guidance scale; 0 turns it off");
    table.number("--diffusion-threshold", "P", g.threshold, {0, 1},
                 "per step, write every position with confidence >= P (at least one)");
    table.number("--diffusion-factor", "F", g.factor, {0, 1e6},
                 "per step, write the n most confident positions while (n+1)(1-confidence) < F");
    table.text("--diffusion-pc-table", "FILE", o.pc_table,
               "token frequencies for pc and pc-linear, made by tokens-freq");
    table.number("--diffusion-pc-lambda", "F", g.pc_lambda, {0, 1e6},
                 "how strongly pc prefers the beginning of a block");
    table.number("--diffusion-pc-alpha", "F", g.pc_alpha, {0, 1e6}, "upper limit of pc's scores");
    table.number("--diffusion-eb-gamma", "F", g.eb_gamma, {0, 1e6}, "entropy that eb may commit per step, in nats");
    table
        .choice("--diffusion-cache", buoy::cache_names, g.cache,
                "reuse keys and values between steps: none, those before the block (prefix), all outside it (dual), or "
                "those that a method chooses (d2, elastic, dllm, anchor; full attention only); prefix is exact for "
                "block-causal "
                "models, all others are approximate")
        .with_default("prefix for block-causal models, otherwise none");
    table
        .number("--diffusion-cache-refresh", "N", g.cache_refresh, {1, whole_max},
                "refresh the cache every N steps of a block")
        .with_default("");
    table
        .number("--diffusion-sub-block-length", "N", g.sub_block_length, {1, whole_max},
                "write each block in parts of N tokens (block-causal models)")
        .with_default("the model's");
    table.number("--diffusion-edit-threshold", "P", g.edit_threshold, {0, 1},
                 "replace a written token if another one reaches confidence P (LLaDA2.1)");
    table
        .call("--diffusion-set", "NAME=VALUE", set_setting,
              "a constant of the decoding method, by the name its authors use; an unknown name lists those there are "
              "with their defaults; can be repeated")
        .repeatable = true;
    table.number("--diffusion-post-steps", "N", g.post_steps, {0, whole_max},
                 "extra editing steps after a block is complete");
}

void add_compute_flags(FlagTable & table, RunParams & o, const std::string & context_default) {
    using buoy::FlashAttention;
    const auto set_mode = [&o](const std::string & where, const std::string & text) {
        if (text != "ar" && text != "diffusion" && text != "spec") {
            buoy::fail(where, ": ", buoy::in_quotes(text), " is not ar, diffusion or spec");
        }
        o.model.mode         = text == "ar" ? buoy::ModelMode::ar : buoy::ModelMode::diffusion;
        o.generate.speculate = text == "spec";
    };
    table.group("Model");
    table
        .call("--mode", "MODE", set_mode,
              "for a model that can be both: ar (autoregressive), diffusion, or spec (diffusion drafts, the "
              "autoregressive mode verifies: its text, in fewer passes)")
        .with_values({"ar", "diffusion", "spec"})
        .with_default("what the model is; diffusion if it is both");
    table
        .toggle("--force-causal", o.model.force_causal, true,
                "run as an autoregressive model, whatever the file says or leaves open")
        .with_setting("force_causal");
    table.group("Compute");
    add_threads_flag(table, o.context.n_threads);
    Flag & context = table.number("-c, --ctx-size", "N", o.context.n_ctx, {1, whole_max},
                                  "context length in tokens; 0: the length the model was trained for");
    context.with_default(context_default).with_env("LLAMA_ARG_CTX_SIZE").with_setting("n_ctx");
    also_takes(context, o.context.n_ctx, {{"0", -1}});
    add_layers_flag(table, o.model);
    add_device_flags(table, o, o.model);
    Flag & flash = table.choice("-fa, --flash-attn", buoy::flash_names, o.context.flash,
                                "flash attention; off is exact (on Vulkan it multiplies in F32, not F16)");
    flash.with_env("LLAMA_ARG_FLASH_ATTN").with_setting("flash");
    also_takes(flash, o.context.flash,
               {{"1", FlashAttention::on},
                {"true", FlashAttention::on},
                {"enabled", FlashAttention::on},
                {"0", FlashAttention::off},
                {"false", FlashAttention::off},
                {"disabled", FlashAttention::off},
                {"-1", FlashAttention::automatic}});
    table.choice("-ctk, --cache-type-k", buoy::kv_type_names, o.context.type_k, "data type of cached keys")
        .with_env("LLAMA_ARG_CACHE_TYPE_K");
    table.choice("-ctv, --cache-type-v", buoy::kv_type_names, o.context.type_v, "data type of cached values")
        .with_env("LLAMA_ARG_CACHE_TYPE_V");
    table
        .choice("--unpack", buoy::unpack_names, o.model.unpack,
                "dequantise the weights to F16 at load, which takes more memory; auto: for diffusion models on a CPU "
                "whose weight type has no custom kernel, if that needs at most half of the free memory")
        .with_setting("unpack");
    table.toggle("--no-mmap", o.model.use_mmap, false, "read the model file into memory instead of mapping it")
        .with_env("LLAMA_ARG_NO_MMAP");
    table.toggle("-nr, --no-repack", o.model.use_repack, false, "do not repack the weights for the CPU")
        .with_env("LLAMA_ARG_NO_REPACK");
}

void tell_preset(const Console & console, const FlagTable & table, const buoy::GenerateParams & params,
                 const buoy::ModelInfo & info) {
    if (!params.preset) {
        return;
    }
    const buoy::AppliedPreset applied = buoy::apply_preset(params, info);
    std::string               text;
    for (const std::string & setting : applied.settings) {
        const size_t equals = setting.find('=');
        std::string  flag   = "--diffusion-" + setting.substr(0, equals);
        std::replace(flag.begin(), flag.end(), '_', '-');
        const bool exists =
            std::any_of(table.rows().begin(), table.rows().end(), [&](const Flag & row) { return row.names == flag; });
        text += exists ? " " + flag + " " + setting.substr(equals + 1) : " --diffusion-set " + setting;
    }
    if (applied.note.empty()) {
        const std::string name = buoy::name_of(buoy::preset_names, *params.preset);
        console.log(buoy::LogLevel::info, "preset " + name + ":" + (text.empty() ? " no further flags" : text));
    } else {
        console.log(buoy::LogLevel::notice, applied.note);
    }
}

void settle(RunParams & o) {
    settle_devices(o, o.model);
    buoy::prepare_devices({.exact = o.context.flash == buoy::FlashAttention::off});
    o.model.n_threads = o.context.n_threads;
    o.generate.seed   = o.seed >= 0 ? static_cast<uint64_t>(o.seed) : std::random_device{}();
    if (o.max_predict && !o.generate.auto_length) {
        buoy::fail("--max-predict needs -n auto");
    }
    o.generate.n_predict = o.max_predict.value_or(o.generate.n_predict);
    if (!o.pc_table.empty()) {
        o.generate.pc_table = buoy::load_frequency_table(o.pc_table);
    }
}
