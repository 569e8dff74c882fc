#include "params.h"

#include "run-flags.h"

#include <algorithm>
#include <map>

namespace {

const std::map<std::string, OutputFormat> format_names = {
    {"md", OutputFormat::md}, {"csv", OutputFormat::csv}, {"json", OutputFormat::json}, {"jsonl", OutputFormat::jsonl}};

std::string flag_of(const Parameter & p) {
    const std::string flags = p.flags;
    return flags.substr(flags.rfind(' ') + 1);
}

// The lists as typed, or their defaults where the mode has a use for them.
std::vector<std::vector<std::string>> fill_lists(const BenchParams & o, std::vector<std::string> lists) {
    const auto list = [&](const char * column) -> std::string & { return lists[parameter_index(column)]; };
    if (o.growth) {
        const std::pair<const char *, const char *> presets[] = {
            {"tokens", "512,2048,4096"}, {"rows", "32"}, {"cache", "dual"}};
        for (const auto & [column, values] : presets) {
            list(column) = list(column).empty() ? values : list(column);
        }
    }
    const bool forward = !list("tokens").empty();

    std::vector<std::vector<std::string>> values(lists.size());
    for (size_t i = 0; i < lists.size(); i++) {
        const Parameter & p     = parameters()[i];
        const auto        other = forward ? Parameter::Use::generation : Parameter::Use::forward;
        if (p.use == other && !lists[i].empty()) {
            buoy::fail(flag_of(p),
                       forward ? " applies to generations, but --forward times single passes" : " needs --forward");
        }
        const std::string text = lists[i].empty() ? p.values : lists[i];
        if (p.use != other && !text.empty()) {
            values[i] = split_list(flag_of(p), text);
        }
    }
    return values;
}

} // namespace

void add_flags(FlagTable & table, BenchParams & o) {
    o.lists.resize(parameters().size());
    table.group("Parameters (comma-separated lists; every combination is measured)");
    for (size_t i = 0; i < parameters().size(); i++) {
        const Parameter & p = parameters()[i];
        table.text(p.flags, p.type, o.lists[i], p.help).with_default(p.values).with_env(p.env).with_setting(p.setting);
    }
    table.group("Devices");
    add_device_flags(table, o, o.model);
    table.group("Measuring");
    table.number("-r, --repetitions", "N", o.repetitions, {1, 1000}, "repetitions of each row");
    table.toggle("--no-warmup", o.warmup, false, "skip the uncounted first pass");
    table.toggle("--profile", o.profile, true,
                 "show how the time of a denoising step splits into the pass and sampling");
    table.toggle(
        "--peak", o.peak, true,
        "print how much this machine can compute and read at most, and every row's share of it; needs no model");
    table.toggle("--growth", o.growth, true,
                 "short for --forward 512,2048,4096 --rows 32 --cache dual, with memory by purpose");
    table.group("Other");
    table.text("-o, --output", "FORMAT|FILE", o.output,
               "format of the table: md (default), csv, json or jsonl; with --make-model, the file to write");
    table.text(
        "--make-model", "SPEC", o.model_spec,
        "write a random model, such as llada:E=1024,L=12,H=16,FF=3072,V=128000,TYPE=q4_0; TYPE: of all matrices, "
        "or a mix such as q4_k_m");
    table.toggle("--force", o.force, true, "replace the file that --make-model writes, if it exists")
        .with_setting("force");
}

void settle(BenchParams & o) {
    if (o.list_devices) {
        return;
    }
    settle_devices(o, o.model);
    if (!o.model_spec.empty()) {
        const bool swept =
            std::any_of(o.lists.begin(), o.lists.end(), [](const std::string & list) { return !list.empty(); });
        if (swept || o.profile || o.growth || o.peak) {
            buoy::fail("--make-model writes a model and measures nothing, so it takes only -o FILE and --force");
        }
        if (o.output.empty()) {
            buoy::fail("--make-model needs -o FILE.gguf");
        }
        o.model_path = o.output;
        return;
    }
    if (!o.output.empty()) {
        const auto format = format_names.find(o.output);
        if (format == format_names.end()) {
            buoy::fail("-o: ", buoy::in_quotes(o.output), " is not one of md, csv, json, jsonl");
        }
        o.format = format->second;
    }
    if (o.peak) {
        const std::string threads = o.lists[parameter_index("threads")];
        o.peak_threads            = {1};
        for (const std::string & text : split_list("-t", threads.empty() ? "0" : threads)) {
            o.peak_threads.push_back(parse_threads("-t", text));
        }
    }
    const bool only_peak = o.peak && std::all_of(o.lists.begin(), o.lists.end(), [&](const std::string & list) {
                               return list.empty() || &list == &o.lists[parameter_index("threads")];
                           });
    if (only_peak) {
        return;
    }
    if (o.lists[parameter_index("model")].empty()) {
        buoy::fail("no model given: use -m FILE.gguf, or make one with --make-model SPEC -o FILE.gguf (--help lists "
                   "the flags)");
    }
    Case first;
    first.rpc   = o.rpc;
    first.model = o.model;
    o.cases     = expand(fill_lists(o, o.lists), first);
    if (o.profile && o.cases.front().forward_tokens > 0) {
        buoy::fail("--profile splits denoising steps, which --forward and --growth do not have");
    }
}
