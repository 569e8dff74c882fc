#include "options.h"

#include "buoy/error.h"
#include "buoy/version.h"
#include "io/printable.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>

namespace {

// llama.cpp's one-dash names of more than one letter, which CLI11 would read as a letter with a value.
const std::map<std::string, std::string> one_dash_names = {
    { "-ngl", "--n-gpu-layers" }, { "-dev", "--device" },        { "-fa", "--flash-attn" },
    { "-ctk", "--cache-type-k" }, { "-ctv", "--cache-type-v" },
};

const std::map<std::string, buoy::FlashAttention> flash_names = {
    { "on", buoy::FlashAttention::on }, { "off", buoy::FlashAttention::off }, { "auto", buoy::FlashAttention::automatic }
};

const std::map<std::string, buoy::KvType> kv_names = {
    { "f32", buoy::KvType::f32 }, { "f16", buoy::KvType::f16 }, { "q8_0", buoy::KvType::q8_0 }
};

void add_input_options(CLI::App & app, Options & o) {
    const std::string group = "Input";
    app.add_option("-m,--model", o.model.path, "GGUF file to run")->type_name("FILE")->envname("LLAMA_ARG_MODEL")->group(group);
    app.add_option("-p,--prompt", o.prompt, "prompt, through the model's chat template if it has one")
        ->type_name("TEXT")
        ->group(group);
    app.add_option("-f,--file", o.prompt_file, "read the prompt from a file, - is standard input")->type_name("FILE")->group(group);
    app.add_flag("--raw", o.raw, "take the prompt as it is, without the chat template")->group(group);
    app.add_option("--tokens", o.tokens, "prompt as token ids, 1,2,3 or @FILE; nothing is added")
        ->type_name("IDS")
        ->group(group);
}

void add_generation_options(CLI::App & app, Options & o) {
    const std::string group = "Generation";
    app.add_option("-n,--n-predict", o.generate.n_predict, "tokens to generate")
        ->capture_default_str()
        ->type_name("N")
        ->envname("LLAMA_ARG_N_PREDICT")
        ->group(group);
    app.add_option("--diffusion-steps", o.generate.steps, "denoising steps in all (default: one token a step)")
        ->type_name("N")
        ->check(CLI::PositiveNumber)
        ->group(group);
    app.add_option("--diffusion-block-length", o.generate.block_length,
                   "semi-autoregressive blocks (default: the model's, else all of -n)")
        ->type_name("N")
        ->check(CLI::PositiveNumber)
        ->group(group);
    app.add_option("-s,--seed", o.seed, "seed, -1 draws one (greedy decoding does not use it)")
        ->capture_default_str()
        ->type_name("N")
        ->envname("LLAMA_ARG_SEED")
        ->group(group);
    app.add_option("--logits-out", o.logits_out, "one forward pass over the prompt, logits [T,V] as float32 .npy, no generation")
        ->type_name("FILE.npy")
        ->group(group);
}

void add_compute_options(CLI::App & app, Options & o) {
    const std::string group = "Compute";
    app.add_option("-t,--threads", o.engine.n_threads, "threads (default: one per core)")
        ->type_name("N")
        ->check(CLI::Range(1, 512))
        ->envname("LLAMA_ARG_THREADS")
        ->group(group);
    app.add_option("-c,--ctx-size", o.engine.n_ctx, "context length (default: what the prompt and -n need)")
        ->type_name("N")
        ->check(CLI::PositiveNumber)
        ->envname("LLAMA_ARG_CTX_SIZE")
        ->group(group);
    app.add_option("--n-gpu-layers,--gpu-layers", o.model.n_gpu_layers, "-ngl: layers to put on GPUs (default: all)")
        ->type_name("N")
        ->check(CLI::NonNegativeNumber)
        ->envname("LLAMA_ARG_N_GPU_LAYERS")
        ->group(group);
    app.add_option("--device", o.model.devices, "-dev: devices to use, comma-separated; none for the CPU only")
        ->delimiter(',')
        ->type_name("NAMES")
        ->envname("LLAMA_ARG_DEVICE")
        ->group(group);
    app.add_flag("--list-devices", o.list_devices, "list the devices and exit")->group(group);
    app.add_option("--flash-attn", o.engine.flash, "-fa: flash attention: on, off (exact), auto (default)")
        ->type_name("MODE")
        ->transform(CLI::CheckedTransformer(flash_names))
        ->envname("LLAMA_ARG_FLASH_ATTN")
        ->group(group);
    app.add_option("--cache-type-k", o.engine.type_k, "-ctk: type of stored keys: f32, f16 (default), q8_0")
        ->type_name("TYPE")
        ->transform(CLI::CheckedTransformer(kv_names))
        ->envname("LLAMA_ARG_CACHE_TYPE_K")
        ->group(group);
    app.add_option("--cache-type-v", o.engine.type_v, "-ctv: type of stored values: f32, f16 (default), q8_0")
        ->type_name("TYPE")
        ->transform(CLI::CheckedTransformer(kv_names))
        ->envname("LLAMA_ARG_CACHE_TYPE_V")
        ->group(group);
    app.add_flag("!--no-mmap", o.model.use_mmap, "copy the weights instead of mapping the file")->group(group);
    app.add_flag("!--no-repack", o.model.use_repack, "keep the file's weight layout on the CPU")->group(group);
}

// CLI11's messages may span lines and quote what was typed; ours are one line.
std::string one_line(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    return buoy::printable(text);
}

const char * env_value(const CLI::Option & option) {
    const char * value = option.get_envname().empty() ? nullptr : std::getenv(option.get_envname().c_str());
    return value != nullptr && *value != '\0' ? value : nullptr;
}

// Newer versions of CLI11 pass over what does not fit the option, and the user would never know.
void check_environment(const CLI::App & app) {
    for (const CLI::Option * option : app.get_options()) {
        if (env_value(*option) != nullptr && option->count() == 0) {
            buoy::fail("environment variable ", option->get_envname(), ": ", buoy::quoted(env_value(*option)),
                       " is no value for ", option->get_name());
        }
    }
}

// Where a value came from the environment, the flag's name alone would puzzle.
std::string env_hint(const CLI::App & app, const std::string & message) {
    for (const CLI::Option * option : app.get_options()) {
        const char * value = env_value(*option);
        if (value != nullptr && message.find(option->get_name()) != std::string::npos &&
            message.find(value) != std::string::npos) {
            return "environment variable " + option->get_envname() + ": ";
        }
    }
    return "";
}

} // namespace

bool parse_options(int argc, char ** argv, Options & options, int & exit_code) {
    CLI::App app("Runs masked-diffusion and autoregressive language models from GGUF files.", "llama-diffusion-cli");
    app.set_version_flag("--version", buoy::version());
    app.get_formatter()->column_width(40);
    add_input_options(app, options);
    add_generation_options(app, options);
    add_compute_options(app, options);
    app.add_flag("-v,--verbose", options.verbose, "say what happens");

    std::vector<std::string> args; // CLI11 wants them last first
    for (int i = argc - 1; i > 0; i--) {
        const auto name = one_dash_names.find(argv[i]);
        args.emplace_back(name != one_dash_names.end() ? name->second : argv[i]);
    }
    try {
        app.parse(args);
        check_environment(app);
    } catch (const CLI::CallForHelp &) {
        std::cout << app.help();
        exit_code = 0;
        return false;
    } catch (const CLI::CallForVersion &) {
        std::cout << "llama-diffusion-cli " << buoy::version() << "\n";
        exit_code = 0;
        return false;
    } catch (const CLI::ParseError & error) {
        buoy::fail(env_hint(app, error.what()), one_line(error.what()), " (--help lists the flags)");
    }
    return true;
}

std::vector<int32_t> parse_tokens(const std::string & text) {
    std::string list = text;
    if (!text.empty() && text[0] == '@') {
        std::ifstream in(text.substr(1));
        if (!in) {
            buoy::fail("--tokens: file ", buoy::quoted(text.substr(1)), " can't be read");
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
            buoy::fail("--tokens: ", buoy::quoted(std::string(at, std::min(end, at + 20))), " is not a token id");
        }
        ids.push_back(id);
        at = result.ptr;
    }
    return ids;
}
