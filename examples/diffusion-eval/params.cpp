#include "params.h"

#include <algorithm>

namespace {

constexpr size_t count_max = 100000;

// "1,5,8-10"
std::vector<size_t> parse_counts(const std::string & where, const std::string & text, size_t least) {
    std::vector<size_t> counts;
    for (const auto & [first, last] : buoy::parse_index_ranges(where, text)) {
        if (static_cast<size_t>(first) < least || static_cast<size_t>(last) > count_max) {
            buoy::fail(where, ": ", buoy::in_quotes(text), ": expected numbers from ", least, " to ", count_max);
        }
        for (int32_t n = first; n <= last; n++) {
            if (std::find(counts.begin(), counts.end(), static_cast<size_t>(n)) == counts.end()) {
                counts.push_back(static_cast<size_t>(n));
            }
        }
    }
    if (counts.empty()) {
        buoy::fail(where, ": ", buoy::in_quotes(text), ": expected numbers, such as 1,5 or 1-10");
    }
    return counts;
}

Flag::Setter counts_setter(std::vector<size_t> & target, size_t least) {
    return [&target, least](const std::string & where, const std::string & text) {
        target = parse_counts(where, text, least);
    };
}

void add_models(const std::string & where, const std::string & text, std::vector<std::string> & models) {
    for (const std::string & name : split_list(where, text)) {
        models.push_back(resolve_model(name));
    }
}

// "2/8"
void set_shard(const std::string & where, const std::string & text, EvalParams & o) {
    const size_t slash = std::min(text.find('/'), text.size());
    const auto   shard = buoy::parse_number<size_t>(text.substr(0, slash));
    const auto   all   = buoy::parse_number<size_t>(text.substr(std::min(slash + 1, text.size())));
    if (!shard || !all || *shard < 1 || *shard > *all || *all > count_max) {
        buoy::fail(where, ": ", buoy::in_quotes(text), " is not I/N, with I from 1 to N");
    }
    o.qa.shard    = *shard - 1;
    o.qa.n_shards = *all;
}

void add_input_flags(FlagTable & table, EvalParams & o) {
    table.group("Input and output");
    table
        .call(
            "-m, --model", "FILES",
            [&o](const std::string & where, const std::string & text) { add_models(where, text, o.qa.models); },
            "GGUF files or names of bundled models (buoy-mdm, buoy-arm), comma-separated; FILE:ar, FILE:diffusion or "
            "FILE:spec is one mode of a model that can be both; can be repeated")
        .repeatable = true;
    table.text("-d, --data", "FILE", o.qa.data, "questions, one JSON object per line; may be gzipped");
    table.text(
        "-o, --output", "FILE", o.output,
        "result file, one line per answer; an existing one is resumed; by default named after the dataset and the "
        "settings, in the current directory");
    table
        .text("--template", "FILE", o.qa.form,
              "template that turns question and passages into a prompt (docs/evaluation.md)")
        .with_default("instruction, numbered passages, question");
    table.toggle("--raw", o.qa.raw, true, "use the prompt as it is, without the model's chat template");
    table.number("--limit", "N", o.qa.n_items, {1, 1e9}, "ask only the first N questions").with_default("all");
    table
        .call(
            "--shard", "I/N", [&o](const std::string & where, const std::string & text) { set_shard(where, text, o); },
            "ask only every N-th question, starting with the I-th; merge combines the files")
        .with_setting("shard");
}

void add_condition_flags(FlagTable & table, EvalParams & o) {
    buoy::QaPlan & plan          = o.qa.plan;
    const auto     set_positions = [&plan](const std::string & where, const std::string & text) {
        plan.gold_positions = text == "all" ? std::vector<size_t>() : parse_counts(where, text, 1);
        plan.all_positions  = text == "all";
    };
    const auto set_shares = [&plan](const std::string & where, const std::string & text) {
        plan.truncate_gold.clear();
        for (const std::string & part : split_list(where, text)) {
            const auto share = buoy::parse_number<double>(part);
            if (!share || !(*share > 0.0 && *share < 1.0)) {
                buoy::fail(where, ": ", buoy::in_quotes(part), " is not a number between 0 and 1");
            }
            plan.truncate_gold.push_back(*share);
        }
    };
    table.group("Conditions (one row of the table each)");
    table.toggle("--no-closed-book", plan.closed_book, false, "do not ask without passages");
    table
        .call("--passages", "LIST", counts_setter(plan.passages, 1),
              "numbers of passages to show, such as 1,5 or 1-5; the conditions below use the largest")
        .with_default("5");
    table.call(
        "--gold-position", "LIST", set_positions,
        "put the gold passage at these positions, such as 1,5,10 or all; passages of other questions fill the rest");
    table.call("--noise", "LIST", counts_setter(plan.noise, 0),
               "mix the gold passage with this many passages of other questions, such as 0-9");
    table.toggle("--shuffle", plan.shuffle, true, "shuffle the passages");
    table.toggle("--drop-gold", plan.drop_gold, true, "remove the gold passage");
    table.toggle("--repeat-gold", plan.repeat_gold, true, "repeat the gold passage at the end");
    table.call("--truncate-gold", "LIST", set_shares,
               "keep only these shares of the gold passage's words, such as 0.25,0.5");
    table.toggle("--contradict", plan.contradict, true,
                 "add a copy of the gold passage that contains another question's answer");
    std::string ready;
    for (const auto & [name, help] : buoy::ready_edit_names()) {
        ready += (ready.empty() ? "" : ", ") + name + " (" + help + ")";
    }
    table
        .texts("--attn-edit", "EDIT", o.edits, 1,
               "edit the attention: " + ready + ", a SPEC as in docs/interventions.md, or NAME: SPEC; can be repeated")
        .with_setting("edits");
}

void add_output_flags(FlagTable & table, EvalParams & o) {
    table.group("Report");
    table.toggle("--json", o.json, true, "print JSON instead of tables");
    table.toggle("--csv", o.csv, true, "print CSV instead of tables");
    table.text("--figures", "DIR", o.figures, "write figures to this directory, as SVG and PNG")
        .with_setting("figures");
}

} // namespace

void add_qa_flags(FlagTable & table, EvalParams & o) {
    add_input_flags(table, o);
    add_condition_flags(table, o);
    add_sampling_flags(table, o);
    add_denoising_flags(table, o);
    add_compute_flags(table, o, "the model's, at most 4096");
    table.group("Attention");
    table
        .toggle("--attn-metrics", o.qa.attention, true,
                "measure what the answers attend to, and keep that in the result file")
        .with_setting("attention");
    add_output_flags(table, o);
    table.toggle("-v, --verbose", o.verbose, true, "log details");
    table.text("--log-file", "FILE", o.log_file, "also write all messages to a file").with_env("LLAMA_ARG_LOG_FILE");
}

void add_summary_flags(FlagTable & table, EvalParams & o) {
    table.group("Input");
    table.texts("RESULTS", "FILE", o.files, 1, "result file");
    add_output_flags(table, o);
}

void add_merge_flags(FlagTable & table, EvalParams & o) {
    table.group("Input and output");
    table.texts("RESULTS", "FILE...", o.files, 1 << 20, "result files of all shards, in any order");
    table.text("-o, --output", "FILE", o.output, "file to write, the same as a run without shards would write");
    table.toggle("--force", o.force, true, "overwrite an existing file").with_setting("force");
}

void add_frontier_flags(FlagTable & table, EvalParams & o) {
    table.group("Input and output");
    table.text("-m, --model", "FILE", o.model_path, "GGUF file or name of a bundled model").with_env("LLAMA_ARG_MODEL");
    table.text("-d, --data", "FILE", o.qa.data,
               "questions, one JSON object per line, or requests for stories (docs/evaluation.md); may be gzipped");
    table.text("-o, --output", "FILE", o.output,
               "keep what was measured, a line per method; an existing file is resumed");
    table
        .text("--template", "FILE", o.qa.form,
              "template that turns question and passages into a prompt (docs/evaluation.md)")
        .with_default("instruction, numbered passages, question");
    table.number("--limit", "N", o.qa.n_items, {1, 1e9}, "ask only the first N questions").with_default("all");
    table.number("--passages", "N", o.n_passages, {0, 1e5}, "number of passages to show");
    table
        .texts("--method", "'NAME: SETTING=VALUE…'", o.methods, 1,
               "measure this instead of the usual methods, such as 'dawn: algorithm=dawn tau_low=0.6'; exact is always "
               "measured; can be repeated")
        .with_default("all methods at several settings");
    add_sampling_flags(table, o);
    add_compute_flags(table, o, "the model's, at most 4096");
    add_output_flags(table, o);
    table.toggle("-v, --verbose", o.verbose, true, "log details");
    table.text("--log-file", "FILE", o.log_file, "also write all messages to a file").with_env("LLAMA_ARG_LOG_FILE");
}

void settle_questions(EvalParams & o) {
    if (o.list_devices) {
        return;
    }
    if (o.qa.models.empty() || o.qa.data.empty()) {
        buoy::fail("qa needs -m MODEL and -d DATA.jsonl");
    }
    if (o.seed < 0) {
        buoy::fail("-s ", o.seed,
                   ": an evaluation with a random seed could not be resumed; expected a seed of 0 or more");
    }
    settle(o);
    o.qa.plan.edits = buoy::parse_qa_edits(o.edits);
    buoy::check_params(o.generate);
}
