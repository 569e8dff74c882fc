#include "param-flags.h"

void add_input_flags(FlagTable & table, CliParams & o) {
    const auto set_prompt = [&o](const std::string &, const std::string & text) {
        o.prompt       = text;
        o.prompt_given = true;
    };
    // an empty name is a variable that was never set, not a wish for the bundled model
    const auto set_model = [&o](const std::string & flag, const std::string & text) {
        if (text.empty()) {
            buoy::fail(flag, " is empty; expected a GGUF file or the name of a bundled model");
        }
        o.model_path = text;
    };
    // exactly, as a published case is about single tokens; flags behind it still have their say
    const auto set_case = [&o](const std::string & flag, const std::string & text) {
        try {
            o.replay = buoy::load_case(text);
        } catch (const buoy::Error & error) {
            buoy::fail(flag, ": ", error.what());
        }
        o.generate       = o.replay->params;
        o.model.mode     = o.replay->mode ? o.replay->mode : o.model.mode;
        o.ignore_eos     = true;
        o.context.flash  = buoy::FlashAttention::off;
        o.context.type_k = o.context.type_v = buoy::KvType::f32;
    };
    table.group("Input");
    table
        .call("-m, --model", "FILE", set_model,
              "GGUF file, or the name of a bundled model: buoy-mdm (default) or buoy-arm")
        .with_env("LLAMA_ARG_MODEL");
    table.call("-p, --prompt", "TEXT", set_prompt,
               "prompt, formatted by the model's chat template if it has one; - reads standard input");
    table.toggle("-e, --escape", o.escape, true,
                 "process \\n, \\r, \\t, \\', \\\", \\\\ and \\xHH in -p; on unless --no-escape is given");
    table.toggle("--no-escape", o.escape, false, "keep backslashes in -p as they are");
    table.text("-f, --file", "FILE", o.prompt_file, "read the prompt from a file; - reads standard input");
    table.text("-sys, --system-prompt", "TEXT", o.system, "system message before the prompt; needs a chat template");
    table.toggle("-cnv, --conversation", o.chat, true, "chat; type /help there for commands");
    table.toggle("--no-history", o.history, false,
                 "chat: do not keep messages in the history file, nor recall earlier ones");
    table.toggle("--raw", o.raw, true,
                 "use the prompt as it is: no chat template, and special tokens such as <|im_start|> are parsed");
    table.toggle("--no-parse-special", o.parse_special, false, "with --raw, treat special tokens as plain text");
    table.toggle("--infill", o.infill, true,
                 "fill the gaps in the prompt, each written [[N]] for N tokens; -n is ignored (diffusion models only)");
    table.text("--tokens", "IDS", o.tokens, "prompt as token ids, 1,2,3 or @FILE; no tokens are added");
    const auto set_canvas = [&o](const std::string & flag, const std::string & text) {
        o.canvas         = parse_tokens(flag.c_str(), text);
        o.context.type_k = o.context.type_v = buoy::KvType::f32; // as exact as a pass that needs no store
        if (o.canvas.empty()) {
            buoy::fail(flag, ": no token ids given");
        }
    };
    table.call(
        "--canvas", "IDS", set_canvas,
        "with --logits-out: read the prompt causally, then run the one pass over this canvas or block behind it, "
        "1,2,3 or @FILE (models that write canvases, or blocks behind a causal prompt; -ctk f32 -ctv f32)");
    table.text(
        "--canvas-logits", "FILE.npy", o.canvas_logits,
        "with --canvas: the logits that it is conditioned on, float32 [C,V], divided by their temperature already");
    table.call("--case", "FILE.json:ID", set_case,
               "replay a published case: its prompt, sampler, settings and recorded draws, computed exactly (-fa off "
               "-ctk f32 -ctv f32 --ignore-eos); flags after it override");
}

void add_visual_flag(FlagTable & table, CliParams & o) {
    table.toggle("--diffusion-visual", o.visual, true, "watch the text being written (on standard error)");
    table
        .number("--diffusion-visual-delay", "MS", o.visual_delay, {0, 10000},
                "show each step for at least MS milliseconds (on a terminal; not counted in the timings)")
        .with_default("150, less for more than 40 steps");
    table.text("--diffusion-visual-out", "FILE", o.visual_out,
               "save the steps as an animation: FILE.gif, FILE.svg, or FILE.cast for asciinema");
}

void add_output_flags(FlagTable & table, CliParams & o) {
    table.group("Output");
    table.toggle("--json", o.json, true, "print one JSON object instead of the text");
    table.text(
        "--logits-out", "FILE.npy", o.logits_out,
        "run one forward pass over the prompt, or over --canvas, and write its logits, float32 [T,V]; nothing is "
        "generated");
    table.toggle("--force", o.force, true, "overwrite existing files (--attn-dump, --diffusion-visual-out)")
        .with_setting("force");
    table.toggle("--no-perf", o.perf, false, "do not print timings").with_env("LLAMA_ARG_NO_PERF");
    table.toggle("-v, --verbose", o.verbose, true, "log details");
    table.text("--log-file", "FILE", o.log_file, "also write all messages to a file").with_env("LLAMA_ARG_LOG_FILE");
}

void add_freq_flags(FlagTable & table, CliParams & o) {
    table.group("Input and output");
    table.text("-m, --model", "FILE", o.model_path, "GGUF file whose tokenizer to use").with_env("LLAMA_ARG_MODEL");
    table.texts("-f, --file", "FILE...", o.texts, 1 << 20, "plain text files to count");
    table.text("-o, --output", "FILE", o.output, "JSON file to write");
    table.toggle("--force", o.force, true, "overwrite an existing file").with_setting("force");
}
