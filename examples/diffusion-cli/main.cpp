#include "answer.h"
#include "attn-run.h"
#include "buoy/bundled.h"
#include "buoy/device.h"
#include "buoy/files.h"
#include "buoy/frequency-table.h"
#include "buoy/generation-json.h"
#include "buoy/preset.h"
#include "buoy/printable.h"
#include "chat.h"
#include "console.h"
#include "film.h"
#include "interrupt.h"
#include "load.h"
#include "manual.h"
#include "param-flags.h"
#include "params.h"
#include "program.h"
#include "prompt.h"
#include "text-diff.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>

#include <unistd.h>

namespace {

constexpr const char * name = "llama-diffusion-cli";

int write_frequencies(const CliParams & params) {
    if (params.model_path.empty() || params.texts.empty() || params.output.empty()) {
        buoy::fail("tokens-freq needs -m MODEL.gguf, -f TEXT and -o TABLE.json");
    }
    const buoy::Vocab    vocab = buoy::Vocab::load(resolve_model(params.model_path));
    buoy::FrequencyTable table;
    for (const std::string & path : params.texts) {
        if (interrupted()) {
            return exit_interrupted;
        }
        buoy::count_tokens(table, vocab, read_text_file(path, "text file"));
    }
    buoy::save_frequency_table(table, params.output, params.force);
    return 0;
}

// The one pass of --logits-out: over the prompt, or over --canvas, behind a prompt that is read before.
buoy::ForwardRequest logits_request(const Session & session, const std::vector<int32_t> & prompt) {
    const CliParams &       params = session.params;
    const buoy::ModelInfo & info   = session.context.info();
    buoy::ForwardRequest    request;
    request.tokens       = params.canvas.empty() ? prompt : params.canvas;
    request.block_length = params.generate.block_length;
    request.rows.resize(request.tokens.size());
    std::iota(request.rows.begin(), request.rows.end(), 0);
    if (params.canvas.empty()) {
        return request;
    }
    if (!info.traits.writes_canvases() && !(info.traits.two_modes && info.traits.is_diffusion())) {
        buoy::fail("--canvas: ", info.arch, " does not read its prompt in a pass of its own; give both as --tokens");
    }
    buoy::ForwardRequest reading;
    reading.tokens    = prompt;
    reading.attention = buoy::AttentionKind::causal;
    reading.kv        = buoy::KvUse::store;
    reading.output    = buoy::OutputKind::none;
    session.context.forward(reading);
    request.attention = buoy::AttentionKind::full;
    request.kv        = buoy::KvUse::store;
    request.positions.resize(request.tokens.size());
    std::iota(request.positions.begin(), request.positions.end(), static_cast<int32_t>(prompt.size()));
    if (!params.canvas_logits.empty()) {
        const std::vector<int64_t> shape   = {static_cast<int64_t>(params.canvas.size()), info.n_vocab};
        request.condition.emplace().logits = buoy::read_npy(params.canvas_logits, shape);
    }
    return request;
}

int write_logits(const Session & session, const Console & console, const Prompt & prompt) {
    if (prompt.tokens.empty()) {
        buoy::fail("--logits-out: the prompt is empty");
    }
    AttnRun              attn(session, console, prompt);
    buoy::ForwardRequest request  = logits_request(session, prompt.tokens);
    const auto           n_rows   = static_cast<int64_t>(request.tokens.size());
    std::vector<int32_t> sequence = prompt.tokens;
    sequence.insert(sequence.end(), session.params.canvas.begin(), session.params.canvas.end());
    attn.prepare_pass(request);
    const StopsAfter            stops("pass");
    const buoy::ForwardResult & result = session.context.forward(request);
    if (interrupted()) {
        return exit_interrupted;
    }
    attn.finish_pass(sequence);
    buoy::write_npy(session.params.logits_out, {n_rows, session.context.info().n_vocab}, result.logits);
    return 0;
}

void print_json(const Session & session, const Answer & out, const AttnRun & attn, const Compared & compared) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(buoy::generation_json(
        {session.context.info(), session.params.context, out.params, out.generation, out.text, session.load_ms}));
    if (const auto & replay = session.params.replay) {
        json["case"] = {{"id", replay->id}, {"sampler", replay->sampler}};
        if (!out.generation.reads.empty()) {
            json["case"]["encoder_calls"] = out.generation.reads;
            json["case"]["nfe"]           = out.generation.steps.size();
        }
        for (const buoy::StepReport & step : out.generation.steps) {
            for (const buoy::Measure & measure : step.measured) {
                json["steps"][static_cast<size_t>(step.step)]["probe"][measure.name] = measure.values;
            }
        }
    }
    if (!attn.recording_json().is_null()) {
        json["recording"] = attn.recording_json();
    }
    if (!attn.edit_json().is_null()) {
        json["edit"] = attn.edit_json();
        if (compared.json.is_object()) {
            json["edit"].update(compared.json);
        }
    }
    print_text(buoy::printable_json(json.dump()) + "\n");
}

void tell_empty_gaps(const Session & session, const Console & console, const buoy::Infill & infill,
                     const Answer & out) {
    const std::vector<std::string> fills = infill.fills(session.vocab, out.generation.sequence);
    for (size_t i = 0; i < fills.size(); i++) {
        if (fills[i].find_first_not_of(' ') == std::string::npos) {
            console.log(buoy::LogLevel::notice, buoy::concat("the model wrote no text into gap ", i + 1));
        }
    }
}

// Both texts, what differs marked, and the numbers.
void tell_difference(const Console & console, const CliParams & params, const Answer & unedited, const Answer & edited,
                     const Compared & compared) {
    if (unedited.text != edited.text) {
        const char *      no_color = std::getenv("NO_COLOR");
        const bool        color    = isatty(STDERR_FILENO) != 0 && (no_color == nullptr || *no_color == '\0');
        const MarkedTexts texts    = mark_differences(unedited.text, edited.text, color && params.log_file.empty());
        console.log_colored(buoy::LogLevel::notice, "without the edits: " + texts.before);
        console.log_colored(buoy::LogLevel::notice, "with the edits:    " + texts.after);
    }
    console.log(buoy::LogLevel::notice, compared.line);
}

// One prompt, one text.
int run_once(const Session & session, const Console & console, const Request & request) {
    const CliParams & params = session.params;
    const auto &      infill = request.infill;
    AttnRun           attn(session, console, request.prompt);
    Film              film(session, request.prompt.tokens);
    const auto        make_answer = [&](Printed printed, const Attach & attach) {
        return answer(session, request.prompt.tokens, printed, attach, infill ? &*infill : nullptr);
    };
    Answer unedited;
    if (params.attn.compare) {
        unedited = make_answer(Printed::nothing, [](buoy::GenerateParams &) {});
        if (unedited.generation.stopped) {
            return exit_interrupted; // nothing to compare it with
        }
    }
    const Answer out = make_answer(params.json ? Printed::nothing : Printed::text, [&](buoy::GenerateParams & made) {
        attn.attach()(made);
        film.attach(made);
    });
    attn.finish(out.generation.steps.size());
    film.save(console, out);
    const bool     compare  = params.attn.compare && !out.generation.stopped;
    const Compared compared = compare ? compare_answers(unedited, out) : Compared();
    if (params.json) {
        print_json(session, out, attn, compared);
    } else if (infill && !out.generation.stopped) {
        tell_empty_gaps(session, console, *infill, out);
    }
    if (const auto note = empty_note(session, out); note && !params.json && !infill) {
        console.log(buoy::LogLevel::notice, *note);
    }
    if (compare && !params.json) {
        tell_difference(console, params, unedited, out, compared);
    }
    if (params.perf) {
        console.log(buoy::LogLevel::notice, timings_text(session, out.generation));
    }
    return out.generation.stopped ? exit_interrupted : 0;
}

std::string model_line(const buoy::ModelInfo & info, size_t n_prompt, int32_t n_ctx) {
    return buoy::concat(info.arch, info.traits.is_diffusion() ? ", diffusion, " : ", autoregressive, ",
                        buoy::attention_kind_name(info.traits.attention), " attention, ", info.n_layer,
                        " layers of width ", info.n_embd, ", ", info.n_vocab, " tokens, ", info.n_bytes >> 20,
                        " MiB; prompt of ", n_prompt, " tokens, context of ", n_ctx);
}

int load_and_run(CliParams & params, const Console & console, const FlagTable & flags) {
    const auto            begin = std::chrono::steady_clock::now();
    const buoy::ModelFile file(params.model_path);
    const buoy::Vocab     vocab    = file.vocab();
    const Request         request  = make_request(params, vocab);
    const size_t          n_tokens = request.prompt.tokens.size();
    complete(params, file, vocab, request);
    const std::unique_ptr<buoy::Context> context = load_context(file, params);
    if (!context) {
        return exit_interrupted;
    }
    const buoy::ModelInfo & info = context->info();
    if (params.infill && info.traits.writes_canvases()) {
        buoy::fail("--infill: ", info.arch, " writes canvases behind a text it has read; it can't fill gaps");
    }
    if (params.infill && !info.traits.is_diffusion()) {
        buoy::fail("--infill: ", info.arch, " is an autoregressive model; only diffusion models can fill gaps");
    }
    if (!params.visual_out.empty() && !info.traits.is_diffusion()) {
        buoy::fail("--diffusion-visual-out: ", info.arch, " is an autoregressive model, which has no denoising steps");
    }
    if (params.replay && params.replay->mask_id.value_or(info.traits.mask_id) != info.traits.mask_id) {
        buoy::fail("--case: ", buoy::in_quotes(params.replay->id), " was made with a model whose mask is token ",
                   *params.replay->mask_id, ", that of ", buoy::printable(params.model_path), " is ",
                   info.traits.mask_id);
    }
    if (!params.attn.edits.empty()) {
        buoy::check_can_edit(context->model());
    }
    if (info.traits.is_diffusion()) { // else one warning names it with the other flags that have no effect
        tell_preset(console, flags, params.generate, info);
    }
    params.generate           = buoy::apply_preset(params.generate, info).params;
    params.context.n_ctx      = context->n_ctx();
    const auto    since_begin = std::chrono::steady_clock::now() - begin;
    buoy::Session sequence(*context);
    const Session session = {params, vocab, *context, sequence,
                             std::chrono::duration<double, std::milli>(since_begin).count()};
    if (!params.logits_out.empty()) {
        warn(params, console, info);
        warn_long(params, console, *context, request.prompt.tokens);
        return write_logits(session, console, request.prompt);
    }
    buoy::check_params(params.generate, info);
    warn(params, console, info);
    warn_long(params, console, *context, request.prompt.tokens);
    console.log(buoy::LogLevel::info, model_line(info, n_tokens, context->n_ctx()));
    if (params.chat) {
        return chat(session, console, read_prompt(params));
    }
    return run_once(session, console, request);
}

int run(CliParams & params, const Command & command) {
    for (const std::string & flag : command.given) {
        if (flag.rfind("--diffusion-", 0) == 0) {
            params.denoising_flags.push_back(flag);
        }
    }
    settle_cli(params);
    check_film(params);
    buoy::add_rpc_servers(params.rpc);
    if (params.list_devices) {
        print_devices();
        return 0;
    }
    if (!params.chat && !params.prompt_given && params.prompt_file.empty() && params.tokens.empty() && !params.replay) {
        buoy::fail(params.logits_out.empty() ? "" : "--logits-out: ",
                   "no prompt given; use -p TEXT, -f FILE or --tokens IDS, or -cnv to chat");
    }
    const bool model_given = !params.model_path.empty();
    params.model_path      = resolve_model(model_given ? params.model_path : buoy::bundled_diffusion_model);
    const Console console(name, command.flags, params.verbose, params.log_file);
    params.model.log = console.callback();
    if (!model_given) {
        console.log(buoy::LogLevel::notice,
                    buoy::concat("no -m given, running the bundled model ", buoy::bundled_diffusion_model, ": ",
                                 buoy::printable(params.model_path)));
    }
    return load_and_run(params, console, command.flags);
}

void add_commands(Program & program, const std::vector<std::string> & args) {
    const auto params = std::make_shared<CliParams>();
    params->command   = name + shell_words(args);
    Command & text    = program.add("", "generate text");
    add_input_flags(text.flags, *params);
    add_sampling_flags(text.flags, *params);
    add_denoising_flags(text.flags, *params);
    add_visual_flag(text.flags, *params);
    add_compute_flags(text.flags, *params,
                      "what the prompt and -n need, at most the trained length; for a chat or -n -1 at most 4096");
    add_attn_flags(text.flags, *params);
    add_output_flags(text.flags, *params);
    text.run = [params](const Command & itself) { return run(*params, itself); };

    Command & freq = program.add("tokens-freq", "count tokens in text files, for --diffusion-algorithm pc");
    add_freq_flags(freq.flags, *params);
    freq.run = [params](const Command &) { return write_frequencies(*params); };
}

} // namespace

int main(int argc, char ** argv) {
    Program program(name, "Runs masked-diffusion and autoregressive language models from GGUF files.",
                    Program::Interrupt::asked);
    program.introduction = manual_introduction;
    program.usage        = "  llama-diffusion-cli -m MODEL.gguf -p PROMPT [flags]\n"
                           "  llama-diffusion-cli -m MODEL.gguf -cnv [flags]\n"
                           "  llama-diffusion-cli tokens-freq -m MODEL.gguf -f TEXT... -o TABLE.json\n";
    program.notes = "(the first Ctrl-C stops after the current step and prints the text so far, a second one quits).";
    program.chapters = manual_presets() + manual_chapters;
    add_commands(program, {argv + 1, argv + argc});
    return program.main(argc, argv);
}
