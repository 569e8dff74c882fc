#include "options.h"

#include "buoy/version.h"
#include "decode/frequency-table.h"
#include "flags.h"
#include "manual.h"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>

namespace {

constexpr double whole_max = std::numeric_limits<int32_t>::max();

const char * const about = "Runs masked-diffusion and autoregressive language models from GGUF files.\n"
                           "\n"
                           "  llama-diffusion-cli -m MODEL.gguf -p PROMPT [flags]\n"
                           "  llama-diffusion-cli -m MODEL.gguf -cnv [flags]\n"
                           "  llama-diffusion-cli tokens-freq -m MODEL.gguf -f TEXT... -o TABLE.json\n";

const char * const about_freq = "Counts the tokens of plain text files, for --diffusion-algorithm pc.\n"
                                "\n"
                                "  llama-diffusion-cli tokens-freq -m MODEL.gguf -f TEXT... -o TABLE.json\n";

const char * const about_exit =
    "\nExit codes: 0 done, 1 the request was wrong, 2 it failed while running, 130 on Ctrl-C (the first one\n"
    "ends with the text that is there, the second one at once).\n";

struct Asked {
    bool help     = false;
    bool markdown = false;
    bool version  = false;
};

void add_input_flags(FlagTable & table, Options & o) {
    const auto set_prompt = [&o](const std::string &, const std::string & text) {
        o.prompt       = text;
        o.prompt_given = true;
    };
    table.group("Input");
    table.text("-m, --model", "FILE", o.model.path, "GGUF file to run").with_env("LLAMA_ARG_MODEL");
    table.call("-p, --prompt", "TEXT", set_prompt,
               "prompt, through the model's chat template if it has one; - reads standard input");
    table.text("-f, --file", "FILE", o.prompt_file, "read the prompt from a file; - is standard input");
    table.text("-sys, --system-prompt", "TEXT", o.system, "system message before the prompt; needs a chat template");
    table.toggle("-cnv, --conversation", o.chat, true,
                 "chat: reads messages from standard input; /help there tells more");
    table.toggle("--raw", o.raw, true, "take the prompt as it is, without the chat template");
    table.toggle(
        "--infill", o.infill, true,
        "fill the gaps of the prompt, [[N]] stands for N tokens; prints the whole text; diffusion models only");
    table.text("--tokens", "IDS", o.tokens, "prompt as token ids, 1,2,3 or @FILE; nothing is added");
}

void add_sampling_flags(FlagTable & table, Options & o) {
    buoy::GenerateParams & g        = o.generate;
    const auto             set_bias = [&g](const std::string & where, const std::string & text) {
        int32_t      id    = 0;
        float        bias  = 0.0f;
        const char * end   = text.data() + text.size();
        const auto   first = std::from_chars(text.data(), end, id);
        const bool   plus  = first.ptr != end && *first.ptr == '+'; // from_chars reads a minus, but no plus
        const bool   sign  = plus || (first.ptr != end && *first.ptr == '-');
        const auto   last  = std::from_chars(first.ptr + (plus ? 1 : 0), end, bias);
        if (first.ec != std::errc() || !sign || last.ec != std::errc() || last.ptr != end || id < 0 ||
            (plus && first.ptr[1] == '-')) {
            buoy::fail(where, ": ", buoy::in_quotes(text), " is not ID+BIAS or ID-BIAS");
        }
        g.logit_bias[id] = bias;
    };
    table.group("Sampling");
    table
        .number("-n, --n-predict, --predict", "N", g.n_predict, {0, whole_max},
                "tokens to generate after the prompt; --infill generates as many as its gaps say")
        .with_env("LLAMA_ARG_N_PREDICT");
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

void add_denoising_flags(FlagTable & table, Options & o) {
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
                "Dream's timesteps, from 1 down to F, instead of blocks")
        .with_default("0.001 for models made for it");
    table
        .call("--diffusion-algorithm", "NAME", set_algorithm,
              "which position is written first: origin, entropy, margin, random, confidence (or 0 to 4), pc, "
              "pc-linear, eb")
        .with_default("entropy for shifted models, else confidence");
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
    table.choice<buoy::DiffusionCache>("--diffusion-cache",
                                       {{"none", buoy::DiffusionCache::none},
                                        {"prefix", buoy::DiffusionCache::prefix},
                                        {"dual", buoy::DiffusionCache::dual}},
                                       g.cache,
                                       "keys and values reused between steps; none is exact, the others are faster");
    table
        .number("--diffusion-cache-refresh", "N", g.cache_refresh, {1, whole_max},
                "compute everything again after N steps of a block")
        .with_default("");
    table.toggle("--diffusion-visual", o.visual, true, "watch the text appear (on standard error)");
}

void add_compute_flags(FlagTable & table, Options & o) {
    using buoy::FlashAttention, buoy::KvType, buoy::Unpack;
    const std::vector<std::pair<std::string, KvType>> kv = {
        {"f32", KvType::f32}, {"f16", KvType::f16}, {"q8_0", KvType::q8_0}};
    table.group("Compute");
    table.number("-t, --threads", "N", o.engine.n_threads, {1, 512}, "threads")
        .with_default("one per core")
        .with_env("LLAMA_ARG_THREADS");
    table.number("-c, --ctx-size", "N", o.engine.n_ctx, {1, whole_max}, "context length in tokens")
        .with_default("what the prompt and -n need; the model's, at most 4096, for a chat")
        .with_env("LLAMA_ARG_CTX_SIZE");
    Flag & layers = table.number("-ngl, --gpu-layers, --n-gpu-layers", "N", o.model.n_gpu_layers, {0, whole_max},
                                 "layers to put on GPUs, or all");
    layers.with_default("all").with_env("LLAMA_ARG_N_GPU_LAYERS");
    layers.set = [&o, set = layers.set](const std::string & where, const std::string & text) {
        if (text == "all" || text == "auto") { // llama.cpp has both words; here they mean the same
            o.model.n_gpu_layers = -1;
        } else {
            set(where, text);
        }
    };
    table.list("-dev, --device", "NAMES", o.model.devices, "devices to use, comma-separated; none: the CPU only")
        .with_default("every GPU")
        .with_env("LLAMA_ARG_DEVICE");
    table.list("--rpc", "SERVERS", o.rpc, "RPC servers, host:port, comma-separated").with_env("LLAMA_ARG_RPC");
    table.toggle("--list-devices", o.list_devices, true, "list the devices and exit");
    table
        .choice<FlashAttention>(
            "-fa, --flash-attn",
            {{"on", FlashAttention::on}, {"off", FlashAttention::off}, {"auto", FlashAttention::automatic}},
            o.engine.flash, "flash attention; off is exact")
        .with_env("LLAMA_ARG_FLASH_ATTN");
    table.choice<KvType>("-ctk, --cache-type-k", kv, o.engine.type_k, "type of stored keys")
        .with_env("LLAMA_ARG_CACHE_TYPE_K");
    table.choice<KvType>("-ctv, --cache-type-v", kv, o.engine.type_v, "type of stored values")
        .with_env("LLAMA_ARG_CACHE_TYPE_V");
    table.choice<Unpack>("--unpack", {{"off", Unpack::off}, {"f16", Unpack::f16}, {"auto", Unpack::automatic}},
                         o.model.unpack,
                         "dequantise the weights at load: more memory, faster steps on a CPU; auto: for a diffusion "
                         "model on a CPU, if that "
                         "takes at most half of the free memory");
    table.toggle("--no-mmap", o.model.use_mmap, false, "copy the weights instead of mapping the file")
        .with_env("LLAMA_ARG_NO_MMAP");
    table.toggle("-nr, --no-repack", o.model.use_repack, false, "keep the file's weight layout on the CPU")
        .with_env("LLAMA_ARG_NO_REPACK");
}

void add_output_flags(FlagTable & table, Options & o, Asked & asked) {
    table.group("Output");
    table.toggle("--json", o.json, true, "print one JSON object instead of the text");
    table.text("--logits-out", "FILE.npy", o.logits_out,
               "one forward pass over the prompt, logits [T,V] as float32, no generation");
    table.toggle("--no-perf", o.perf, false, "no timings on standard error").with_env("LLAMA_ARG_NO_PERF");
    table.toggle("-v, --verbose", o.verbose, true, "say what happens");
    table.text("--log-file", "FILE", o.log_file, "write all messages to a file as well").with_env("LLAMA_ARG_LOG_FILE");
    table.toggle("--version", asked.version, true, "print the version and exit");
    table.toggle("-h, --help", asked.help, true, "print this and exit");
    table.toggle("--help-markdown", asked.markdown, true, "");
}

void add_freq_flags(FlagTable & table, Options & o, Asked & asked) {
    table.group("tokens-freq");
    table.text("-m, --model", "FILE", o.model.path, "GGUF file whose tokenizer counts").with_env("LLAMA_ARG_MODEL");
    table.texts("-f, --file", "FILE...", o.texts, 1 << 20, "plain text files");
    table.text("-o, --output", "FILE", o.output, "JSON file to write");
    table.toggle("--force", o.force, true, "replace the output if it exists");
    table.toggle("-h, --help", asked.help, true, "print this and exit");
}

// Settings that contradict each other; what only the model can tell is checked when it is known.
void check_combinations(const Options & o) {
    const int n_prompts = (o.prompt_given ? 1 : 0) + (o.prompt_file.empty() ? 0 : 1) + (o.tokens.empty() ? 0 : 1);
    if (n_prompts > 1) {
        buoy::fail("-p, -f and --tokens each give the prompt, use one of them");
    }
    const bool from_stdin = o.prompt_file == "-" || (o.prompt_given && o.prompt == "-");
    const std::vector<std::pair<bool, const char *>> not_in_chat = {
        {o.json, "--json"},
        {o.infill, "--infill"},
        {!o.tokens.empty(), "--tokens"},
        {!o.logits_out.empty(), "--logits-out"},
        {o.raw, "--raw"},
        {from_stdin, "a prompt from standard input"},
    };
    for (const auto & [given, name] : not_in_chat) {
        if (o.chat && given) {
            buoy::fail("-cnv can't be combined with ", name);
        }
    }
    if (o.infill && !o.tokens.empty()) {
        buoy::fail("--infill takes text with gaps; --tokens may hold mask tokens itself");
    }
    if (!o.system.empty() && (o.raw || o.infill || !o.tokens.empty())) {
        buoy::fail("-sys needs the chat template, which --raw, --infill and --tokens leave out");
    }
}

void resolve(Options & o) {
    check_combinations(o);
    o.generate.seed = o.seed >= 0 ? static_cast<uint64_t>(o.seed) : std::random_device{}();
    if (!o.pc_table.empty()) {
        o.generate.pc_table = buoy::load_frequency_table(o.pc_table);
    }
    if (o.infill) {
        o.generate.n_predict = 0;
    }
}

void print(const std::string & text) { std::fwrite(text.data(), 1, text.size(), stdout); }

} // namespace

bool parse_options(int argc, char ** argv, Options & options) {
    std::vector<std::string> args(argv + std::min(argc, 1), argv + argc);
    Asked                    asked;
    FlagTable                table, freq;
    add_input_flags(table, options);
    add_sampling_flags(table, options);
    add_denoising_flags(table, options);
    add_compute_flags(table, options);
    add_output_flags(table, options, asked);
    add_freq_flags(freq, options, asked);
    options.tokens_freq = !args.empty() && args[0] == "tokens-freq";
    if (options.tokens_freq) {
        args.erase(args.begin());
        freq.parse("llama-diffusion-cli tokens-freq", args);
    } else {
        table.parse("llama-diffusion-cli", args);
    }
    if (asked.help) {
        print(options.tokens_freq ? about_freq + freq.help() : about + table.help() + about_exit);
    } else if (asked.markdown) {
        print(manual(table.markdown(), freq.markdown()));
    } else if (asked.version) {
        print(std::string("llama-diffusion-cli ") + buoy::version() + "\n");
    } else {
        if (!options.tokens_freq) {
            resolve(options);
        }
        return true;
    }
    return false;
}

std::vector<int32_t> parse_tokens(const std::string & text) {
    std::string list = text;
    if (!text.empty() && text[0] == '@') {
        std::ifstream in(text.substr(1));
        if (!in) {
            buoy::fail("--tokens: file ", buoy::in_quotes(text.substr(1)), " can't be read");
        }
        list.assign(std::istreambuf_iterator<char>(in), {});
    }
    std::vector<int32_t> ids;
    const char *         at  = list.data();
    const char *         end = list.data() + list.size();
    while (at != end) {
        if (*at == ',' || *at == ' ' || *at == '\n' || *at == '\r' || *at == '\t') {
            at++;
            continue;
        }
        int32_t    id     = 0;
        const auto result = std::from_chars(at, end, id);
        if (result.ec != std::errc() || id < 0) {
            buoy::fail("--tokens: ", buoy::in_quotes(std::string(at, std::min(end, at + 20))), " is not a token id");
        }
        ids.push_back(id);
        at = result.ptr;
    }
    return ids;
}
