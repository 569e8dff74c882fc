#include "params.h"

#include "input-text.h"

#include "flags.h"
#include "param-flags.h"
#include "prompt.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

namespace {

// Settings that contradict each other; what only the model can tell is checked when it is known.
void check_combinations(const CliParams & o) {
    const int n_prompts =
        (o.prompt_given ? 1 : 0) + (o.prompt_file.empty() ? 0 : 1) + (o.tokens.empty() ? 0 : 1) + (o.replay ? 1 : 0);
    if (n_prompts > 1) {
        buoy::fail("-p, -f, --tokens and --case each give the prompt; use only one of them");
    }
    const std::vector<std::pair<bool, const char *>> not_in_chat = {
        {o.json, "--json"},
        {o.infill, "--infill"},
        {!o.tokens.empty(), "--tokens"},
        {o.replay.has_value(), "--case"},
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
        buoy::fail("--infill needs text with gaps; --tokens can contain mask tokens directly");
    }
    if (o.infill && o.replay) {
        buoy::fail("--infill needs text with gaps; a case has token ids");
    }
    if (!o.system.empty() && (o.replay || o.raw || o.infill || !o.tokens.empty())) {
        buoy::fail("-sys needs the chat template, which --raw, --infill, --tokens and --case do not use");
    }
    if (!o.parse_special && !o.raw) {
        buoy::fail("--no-parse-special needs --raw: without it special tokens are plain text anyway");
    }
    if (!o.canvas.empty() && o.logits_out.empty()) {
        buoy::fail("--canvas is about one pass: it needs --logits-out, and the prompt as --tokens or text");
    }
    if (!o.canvas_logits.empty() && o.canvas.empty()) {
        buoy::fail("--canvas-logits needs the canvas that it is about: --canvas");
    }
    check_attn(o);
}

} // namespace

void settle_cli(CliParams & o) {
    check_combinations(o);
    o.attn.record.force = o.force;
    if (o.escape) {
        o.prompt = unescaped(o.prompt);
    }
    settle(o);
    if (o.infill && o.generate.auto_length) {
        buoy::fail("-n auto finds the length of an answer; the gaps of --infill have theirs");
    }
    if (o.infill) {
        o.generate.n_predict = 0;
    }
    buoy::check_params(o.generate);
}

std::vector<int32_t> parse_tokens(const char * flag, const std::string & text) {
    std::string list = text;
    if (!text.empty() && text[0] == '@') {
        std::ifstream in(text.substr(1));
        if (!in) {
            buoy::fail(flag, ": file ", buoy::in_quotes(text.substr(1)), " cannot be read");
        }
        list = read_to_end(in, buoy::concat("the file of ", flag));
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
            buoy::fail(flag, ": ", buoy::in_quotes(std::string(at, std::min(end, at + 20))), " is not a token id");
        }
        ids.push_back(id);
        at = result.ptr;
    }
    return ids;
}
