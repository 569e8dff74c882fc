#include "params.h"
#include "base/fail.h"

#include "buoy/version.h"
#include "flags.h"
#include "manual.h"
#include "param-flags.h"
#include "prompt.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iterator>

namespace {

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

// Settings that contradict each other; what only the model can tell is checked when it is known.
void check_combinations(const CliParams & o) {
    const int n_prompts = (o.prompt_given ? 1 : 0) + (o.prompt_file.empty() ? 0 : 1) + (o.tokens.empty() ? 0 : 1);
    if (n_prompts > 1) {
        buoy::fail("-p, -f and --tokens each give the prompt, use one of them");
    }
    const std::vector<std::pair<bool, const char *>> not_in_chat = {
        {o.json, "--json"},
        {o.infill, "--infill"},
        {!o.tokens.empty(), "--tokens"},
        {!o.logits_out.empty(), "--logits-out"},
        {o.raw, "--raw"},
        {o.prompt_from_stdin(), "a prompt from standard input"},
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
    check_attn(o);
}

void resolve(CliParams & o) {
    check_combinations(o);
    if (o.escape) {
        o.prompt = unescaped(o.prompt);
    }
    settle(o);
    if (o.infill) {
        o.generate.n_predict = 0;
    }
    buoy::check_params(o.generate);
}

void print(const std::string & text) { std::fwrite(text.data(), 1, text.size(), stdout); }

} // namespace

bool parse_params(int argc, char ** argv, CliParams & params) {
    std::vector<std::string> args(argv + std::min(argc, 1), argv + argc);
    Asked                    asked;
    FlagTable                table, freq;
    add_input_flags(table, params);
    add_sampling_flags(table, params);
    add_denoising_flags(table, params);
    add_visual_flag(table, params);
    add_compute_flags(table, params, "what the prompt and -n need; the model's, at most 4096, for a chat or -n -1");
    add_attn_flags(table, params);
    add_output_flags(table, params, asked);
    add_freq_flags(freq, params, asked);
    params.tokens_freq = !args.empty() && args[0] == "tokens-freq";
    if (params.tokens_freq) {
        args.erase(args.begin());
        freq.parse("llama-diffusion-cli tokens-freq", args);
    } else {
        for (const std::string & name : table.parse("llama-diffusion-cli", args)) {
            if (name.rfind("--diffusion-", 0) == 0) {
                params.denoising_flags.push_back(name);
            }
        }
    }
    if (asked.help) {
        print(params.tokens_freq ? about_freq + freq.help() : about + table.help() + about_exit);
    } else if (asked.markdown) {
        print(manual(table.markdown(), freq.markdown()));
    } else if (asked.version) {
        print(std::string("llama-diffusion-cli ") + buoy::version() + "\n");
    } else {
        if (!params.tokens_freq) {
            resolve(params);
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
