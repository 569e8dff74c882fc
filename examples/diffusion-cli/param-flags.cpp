#include "param-flags.h"

void add_input_flags(FlagTable & table, CliParams & o) {
    const auto set_prompt = [&o](const std::string &, const std::string & text) {
        o.prompt       = text;
        o.prompt_given = true;
    };
    // an empty name is a variable that was never set, not a wish for the bundled model
    const auto set_model = [&o](const std::string & flag, const std::string & text) {
        if (text.empty()) {
            buoy::fail(flag, " is empty, expected a GGUF file or a bundled model's name");
        }
        o.model_path = text;
    };
    table.group("Input");
    table
        .call("-m, --model", "FILE", set_model,
              "GGUF file to run, or the name of a bundled model: buoy-mdm (the default), buoy-arm")
        .with_env("LLAMA_ARG_MODEL");
    table.call("-p, --prompt", "TEXT", set_prompt,
               "prompt, through the model's chat template if it has one; - reads standard input");
    table.toggle("-e, --escape", o.escape, true,
                 "process \\n, \\r, \\t, \\', \\\", \\\\ and \\xHH in -p; on unless --no-escape is given");
    table.toggle("--no-escape", o.escape, false, "take backslashes in -p as they are");
    table.text("-f, --file", "FILE", o.prompt_file, "read the prompt from a file; - is standard input");
    table.text("-sys, --system-prompt", "TEXT", o.system, "system message before the prompt; needs a chat template");
    table.toggle("-cnv, --conversation", o.chat, true,
                 "chat: reads messages from standard input; /help there tells more");
    table.toggle("--no-history", o.history, false,
                 "chat: do not keep messages in the history file, nor recall earlier ones");
    table.toggle("--raw", o.raw, true, "take the prompt as it is, without the chat template");
    table.toggle("--infill", o.infill, true,
                 "fill the gaps of the prompt, [[N]] stands for N tokens, instead of -n; prints the whole text; "
                 "diffusion models "
                 "only");
    table.text("--tokens", "IDS", o.tokens, "prompt as token ids, 1,2,3 or @FILE; nothing is added");
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
    table.text("--logits-out", "FILE.npy", o.logits_out,
               "one forward pass over the prompt, logits [T,V] as float32, no generation");
    table.toggle("--force", o.force, true, "replace files that exist, of --attn-dump and --diffusion-visual-out")
        .with_setting("force");
    table.toggle("--no-perf", o.perf, false, "no timings on standard error").with_env("LLAMA_ARG_NO_PERF");
    table.toggle("-v, --verbose", o.verbose, true, "say what happens");
    table.text("--log-file", "FILE", o.log_file, "write all messages to a file as well").with_env("LLAMA_ARG_LOG_FILE");
}

void add_freq_flags(FlagTable & table, CliParams & o) {
    table.group("Input and output");
    table.text("-m, --model", "FILE", o.model_path, "GGUF file whose tokenizer counts").with_env("LLAMA_ARG_MODEL");
    table.texts("-f, --file", "FILE...", o.texts, 1 << 20, "plain text files");
    table.text("-o, --output", "FILE", o.output, "JSON file to write");
    table.toggle("--force", o.force, true, "replace the output if it exists").with_setting("force");
}
