#include "sweep.h"

#include "device-flags.h"
#include "flags.h"
#include "run-flags.h"
#include "suggest.h"

#include <algorithm>

namespace {

constexpr int32_t tokens_max = 1 << 24;
constexpr size_t  cases_max  = 10000;

template <typename T> T parse_number(const char * what, const std::string & text, T low, T high) {
    const std::optional<T> number = buoy::parse_number<T>(text);
    if (!number || !(*number >= low && *number <= high)) {
        buoy::fail(what, ": ", buoy::in_quotes(text), " is not a number from ", low, " to ", high);
    }
    return *number;
}

template <typename T, size_t N>
T parse_name(const char * what, const std::string & text, const buoy::Name<T> (&names)[N]) {
    std::string              list;
    std::vector<std::string> known;
    for (const auto & [name, value] : names) {
        if (text == name) {
            return value;
        }
        known.emplace_back(name);
        list += (list.empty() ? "" : "|") + known.back();
    }
    buoy::fail(what, ": ", buoy::in_quotes(text), " is not one of ", list, did_you_mean(text, known));
}

void set_parallel(Case & one, const std::string & v) { one.n_parallel = parse_number("-np", v, 1, 512); }
void set_prompt(Case & one, const std::string & v) { one.n_prompt = parse_number("-p", v, 0, tokens_max); }
void set_predict(Case & one, const std::string & v) { one.generate.n_predict = parse_number("-n", v, 1, tokens_max); }
void set_steps(Case & one, const std::string & v) { one.generate.steps = parse_number("--steps", v, 0, tokens_max); }
void set_block(Case & one, const std::string & v) {
    one.generate.block_length = parse_number("--block-length", v, 0, tokens_max);
}
void set_cache(Case & one, const std::string & v) {
    if (v != "auto") {
        one.generate.cache = parse_name("--cache", v, buoy::cache_names);
    }
}
void set_threshold(Case & one, const std::string & v) {
    if (v != "off") {
        one.generate.threshold = parse_number("--threshold", v, 0.0f, 1.0f);
    }
}
void set_threads(Case & one, const std::string & v) { one.context.n_threads = parse_threads("-t", v); }
void set_type_k(Case & one, const std::string & v) { one.context.type_k = parse_name("-ctk", v, buoy::kv_type_names); }
void set_type_v(Case & one, const std::string & v) { one.context.type_v = parse_name("-ctv", v, buoy::kv_type_names); }
void set_flash(Case & one, const std::string & v) { one.context.flash = parse_name("-fa", v, buoy::flash_names); }
void set_unpack(Case & one, const std::string & v) { one.model.unpack = parse_name("--unpack", v, buoy::unpack_names); }
void set_kernels(Case & one, const std::string & v) {
    one.model.kernels = parse_name("--kernels", v, buoy::kernel_names);
}
void set_repack(Case & one, const std::string & v) {
    constexpr buoy::Name<bool> names[] = {{"on", true}, {"off", false}};
    one.model.use_repack               = parse_name("--repack", v, names);
}
void set_temperature(Case & one, const std::string & v) {
    one.generate.temperature = parse_number("--temp", v, 0.0f, 100.0f);
}
void set_layers(Case & one, const std::string & v) { one.model.n_gpu_layers = parse_layers("-ngl", v); }
void set_attn(Case & one, const std::string & v) {
    if (v != "off") {
        one.attn = parse_name("--attn", v, buoy::reduce_names);
        if (one.n_parallel > 1) {
            buoy::fail("--attn records one text, but --parallel ", one.n_parallel, " generates several");
        }
    }
}
void set_forward(Case & one, const std::string & v) {
    one.forward_tokens = parse_number("--forward", v, 1, tokens_max);
}
void set_rows(Case & one, const std::string & v) {
    one.forward_rows = v == "all" ? 0 : parse_number("--rows", v, 1, tokens_max);
    if (one.forward_rows > one.forward_tokens) {
        buoy::fail("--rows ", v, " exceeds the ", one.forward_tokens, " tokens of --forward");
    }
    if (one.generate.cache == buoy::DiffusionCache::prefix) {
        buoy::fail(
            "--forward can't be combined with --cache prefix; use none, or dual for a block against stored positions");
    }
}

} // namespace

const std::vector<Parameter> & parameters() {
    using Use                               = Parameter::Use;
    static const std::vector<Parameter> all = {
        {"model", "-m, --model", "FILES", "", "GGUF files, or names of bundled models", Use::always,
         [](Case & one, const std::string & v) { one.model_path = resolve_model(v); }, "", "", true},
        {"ngl", layers_flag, "N", "auto", layers_help, Use::always, set_layers, layers_env, "n_gpu_layers"},
        {"threads", "-t, --threads", "N", "", threads_help, Use::always, set_threads, "", "", true},
        {"type_k", "-ctk, --cache-type-k", "TYPE", "f16", "type of stored keys: f32, f16, q8_0", Use::always,
         set_type_k},
        {"type_v", "-ctv, --cache-type-v", "TYPE", "f16", "data type of cached values", Use::always, set_type_v},
        {"fa", "-fa, --flash-attn", "MODE", "auto", "flash attention: on, off, auto", Use::always, set_flash, "",
         "flash"},
        {"unpack", "--unpack", "MODE", "off", "keep weights as stored (off), or unpack them when loading: f16, auto",
         Use::always, set_unpack, "", "unpack"},
        {"kernels", "--kernels", "WHOSE", "auto",
         "CPU kernels for matrix products, attention and summaries: ours (weights as stored) or ggml; auto: for "
         "products "
         "those that were measured to be faster",
         Use::always, set_kernels, "", "", true},
        {"repack", "--repack", "MODE", "on",
         "ggml's interleaved layouts of weights, where its kernels are used: on, off", Use::always, set_repack, "",
         "use_repack"},
        {"cache", "--cache", "MODE", "auto",
         "K/V reuse: none, prefix, dual; auto: prefix for block-causal models, else none", Use::always, set_cache, "",
         "", true},
        {"prompt", "-p, --n-prompt", "N", "32", "prompt tokens", Use::generation, set_prompt, "", "", true},
        {"gen", "-n, --n-predict", "N", "224", "new tokens", Use::generation, set_predict, "", "n_predict", true},
        {"parallel", "-np, --parallel", "N", "1", "texts generated together in one batch", Use::generation,
         set_parallel},
        {"steps", "--steps", "N", "64", "total number of denoising steps; 0: one per token", Use::generation, set_steps,
         "", "", true},
        {"block", "--block-length", "N", "32", "block length; 0: the model's", Use::generation, set_block, "", "",
         true},
        {"threshold", "--threshold", "P", "off",
         "per step, write every position with confidence >= P; off: by schedule", Use::generation, set_threshold},
        {"temp", "--temp", "T", "0", "temperature; 0: always the most likely token", Use::generation, set_temperature},
        {"attn", "--attn", "MODE", "off",
         "record attention in f16, reduced as named: none (whole), heads, received, regions", Use::generation,
         set_attn},
        {"tokens", "--forward", "T", "", "time single passes over T tokens, without generating", Use::forward,
         set_forward, "", "", true},
        {"rows", "--rows", "R", "all", "rows of such a pass to return; with --cache dual, the tokens to compute",
         Use::forward, set_rows, "", "", true},
    };
    return all;
}

size_t parameter_index(const std::string & column) {
    for (size_t i = 0; i < parameters().size(); i++) {
        if (column == parameters()[i].column) {
            return i;
        }
    }
    buoy::fail_runtime("no parameter is called ", column);
}

std::vector<Case> expand(const std::vector<std::vector<std::string>> & values, const Case & first) {
    std::vector<Case> cases = {first};
    for (size_t i = 0; i < values.size(); i++) {
        std::vector<Case> longer;
        for (const Case & one : cases) {
            if (values[i].empty()) {
                longer.push_back(one);
                longer.back().values.emplace_back();
            }
            for (const std::string & value : values[i]) {
                longer.push_back(one);
                longer.back().values.push_back(value);
                parameters()[i].apply(longer.back(), value);
                if (longer.size() > cases_max) {
                    buoy::fail("the lists give more than ", cases_max, " combinations");
                }
            }
        }
        cases = std::move(longer);
    }
    return cases;
}
