#include "options.h"

#include "buoy/error.h"
#include "buoy/version.h"
#include "io/printable.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <map>

namespace {

constexpr const char * name = "llama-diffusion-bench";

// llama.cpp's one-dash names of more than one letter, which CLI11 would read as a letter with a value.
const std::map<std::string, std::string> one_dash_names = {
    {"-ngl", "--n-gpu-layers"}, {"-fa", "--flash-attn"}, {"-ctk", "--cache-type-k"}, {"-ctv", "--cache-type-v"}};

const std::map<std::string, OutputFormat> format_names = {
    {"md", OutputFormat::md}, {"csv", OutputFormat::csv}, {"json", OutputFormat::json}, {"jsonl", OutputFormat::jsonl}};

struct Typed {
    std::vector<std::string> lists; // one for each of parameters()
    std::string              output;
};

void add_options(CLI::App & app, Options & o, Typed & typed) {
    typed.lists.resize(parameters().size());
    for (size_t i = 0; i < parameters().size(); i++) {
        const Parameter & p = parameters()[i];
        CLI::Option *     option =
            app.add_option(p.flags, typed.lists[i], p.help)->type_name(p.type)->group("Swept (comma-separated lists)");
        if (*p.values != '\0') {
            option->default_str(p.values);
        }
    }
    const std::string group = "Measuring";
    app.add_option("-r,--repetitions", o.repetitions, "repetitions of each row")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000))
        ->type_name("N")
        ->group(group);
    app.add_flag("!--no-warmup", o.warmup, "without a first pass that is not counted")->group(group);
    app.add_flag("--profile", o.profile, "how a denoising step's time splits into passes and sampling")->group(group);
    app.add_flag("--growth", o.growth, "--forward 512,2048,4096 --rows 32 --cache dual, with memory by part")
        ->group(group);
    app.add_option("-o,--output", typed.output, "md (default), csv, json or jsonl; with --make-model the file to write")
        ->type_name("FORMAT|FILE");
    app.add_option("--make-model", o.model_spec,
                   "write a random model, such as llada:E=1024,L=12,H=16,FF=3072,V=128000,TYPE=q4_0")
        ->type_name("SPEC");
    app.add_flag("--force", o.force, "replace the file --make-model writes");
}

std::string flag_of(const Parameter & p) {
    const std::string flags = p.flags;
    return flags.substr(flags.rfind(',') + 1);
}

// The lists as typed, or their defaults where the mode has a use for them.
std::vector<std::vector<std::string>> fill_lists(const Options & o, std::vector<std::string> lists) {
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
            buoy::fail(flag_of(p), forward ? " is for generations, --forward times single passes" : " needs --forward");
        }
        const std::string text = lists[i].empty() ? p.values : lists[i];
        if (p.use != other && !text.empty()) {
            values[i] = split_list(flag_of(p), text);
        }
    }
    return values;
}

void finish(Options & o, const Typed & typed) {
    if (!o.model_spec.empty()) {
        const bool swept =
            std::any_of(typed.lists.begin(), typed.lists.end(), [](const std::string & list) { return !list.empty(); });
        if (swept || o.profile || o.growth) {
            buoy::fail("--make-model writes a model and measures nothing: it goes with -o FILE and --force only");
        }
        if (typed.output.empty()) {
            buoy::fail("--make-model needs -o FILE.gguf");
        }
        o.model_path = typed.output;
        return;
    }
    if (!typed.output.empty()) {
        const auto format = format_names.find(typed.output);
        if (format == format_names.end()) {
            buoy::fail("-o: ", buoy::in_quotes(typed.output), " is unknown, expected md, csv, json or jsonl");
        }
        o.format = format->second;
    }
    if (typed.lists[parameter_index("model")].empty()) {
        buoy::fail(
            "no model given: -m FILE.gguf, or --make-model SPEC -o FILE.gguf makes one (--help lists the flags)");
    }
    o.cases = expand(fill_lists(o, typed.lists));
    if (o.profile && o.cases.front().forward_tokens > 0) {
        buoy::fail("--profile splits the steps of a generation, --forward and --growth have none");
    }
}

} // namespace

bool parse_options(int argc, char ** argv, Options & options) {
    CLI::App app("Measures how fast models generate, as one table. Every list of values is swept.", name);
    app.set_version_flag("--version", buoy::version());
    app.get_formatter()->column_width(40);
    Typed typed;
    add_options(app, options, typed);

    std::vector<std::string> args; // CLI11 wants them last first
    for (int i = argc - 1; i > 0; i--) {
        const auto long_name = one_dash_names.find(argv[i]);
        args.emplace_back(long_name != one_dash_names.end() ? long_name->second : argv[i]);
    }
    try {
        app.parse(args);
    } catch (const CLI::CallForHelp &) {
        std::cout << app.help();
        return false;
    } catch (const CLI::CallForVersion &) {
        std::cout << name << " " << buoy::version() << "\n";
        return false;
    } catch (const CLI::ParseError & error) {
        std::string text = error.what();
        std::replace(text.begin(), text.end(), '\n', ' ');
        buoy::fail(buoy::printable(text), " (--help lists the flags)");
    }
    finish(options, typed);
    return true;
}
