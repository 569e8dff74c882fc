// The table of the methods' constants.

#include "decode/method-settings.h"

#include "buoy/message.h"
#include "buoy/names.h"
#include "buoy/parse.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace buoy {

namespace {

enum class SettingKind { number, whole, toggle, list, choice };

struct SettingRow {
    const char *              name;
    const char *              methods;
    const char *              help;
    SettingKind               kind            = SettingKind::number;
    double                    low             = 0.0;
    double                    high            = 1.0;
    std::vector<double>       initial         = {}; // empty: none, or left open
    std::vector<double>       initial_shifted = {}; // empty: the same
    bool                      can_be_none     = false;
    std::vector<const char *> choices         = {};
    // a setting that all methods share, which has a member of its own
    void (*store)(GenerateParams & params, const std::vector<double> & values) = nullptr;
};

constexpr double whole_max = std::numeric_limits<int32_t>::max();

int32_t whole(const std::vector<double> & values) { return static_cast<int32_t>(values[0]); }

std::optional<float> optional_float(const std::vector<double> & values) {
    return values.empty() ? std::nullopt : std::optional(static_cast<float>(values[0]));
}

std::vector<const char *> algorithm_names() {
    std::vector<const char *> names;
    for (const AlgorithmInfo & algorithm : algorithms()) {
        names.push_back(algorithm.name);
    }
    return names;
}

template <typename T, size_t N> std::vector<const char *> name_list(const Name<T> (&known)[N]) {
    std::vector<const char *> names;
    for (const auto & [name, value] : known) {
        names.push_back(name);
    }
    return names;
}

const std::vector<SettingRow> & table() {
    using Kind                                = SettingKind;
    using Values                              = std::vector<double>;
    static const std::vector<SettingRow> rows = {
        {.name    = "gen_length",
         .methods = "all",
         .help    = "tokens to generate",
         .kind    = Kind::whole,
         .high    = whole_max,
         .initial = {128},
         .store   = [](GenerateParams & p, const Values & v) { p.n_predict = whole(v); }},
        {.name        = "preset",
         .methods     = "all",
         .help        = "how much is approximated for speed; what is set otherwise stays",
         .kind        = Kind::choice,
         .high        = static_cast<double>(std::size(preset_names) - 1),
         .can_be_none = true,
         .choices     = name_list(preset_names),
         .store =
             [](GenerateParams & p, const Values & v) {
                 p.preset = v.empty() ? std::nullopt : std::optional(preset_names[static_cast<size_t>(v[0])].second);
             }},
        {.name    = "algorithm",
         .methods = "all",
         .help    = "how positions are chosen",
         .kind    = Kind::choice,
         .high    = static_cast<double>(algorithm_names().size() - 1),
         .initial = {static_cast<double>(Algorithm::confidence)},
         .choices = algorithm_names(),
         .store   = [](GenerateParams & p, const Values & v) { p.algorithm = static_cast<Algorithm>(whole(v)); }},
        {.name    = "cache",
         .methods = "all",
         .help    = "how keys and values are reused",
         .kind    = Kind::choice,
         .high    = static_cast<double>(std::size(cache_names) - 1),
         .initial = {0},
         .choices = name_list(cache_names),
         .store   = [](GenerateParams & p,
                     const Values &   v) { p.cache = cache_names[static_cast<size_t>(v[0])].second; }},
        {.name    = "block_length",
         .methods = "all",
         .help    = "tokens of a block; 0: the model's",
         .kind    = Kind::whole,
         .high    = whole_max,
         .initial = {0},
         .store   = [](GenerateParams & p, const Values & v) { p.block_length = whole(v); }},
        {.name    = "steps",
         .methods = "all",
         .help    = "denoising steps; 0: one for each token",
         .kind    = Kind::whole,
         .high    = 1e6,
         .initial = {0},
         .store   = [](GenerateParams & p, const Values & v) { p.steps = whole(v); }},
        {.name    = "temperature",
         .methods = "all",
         .help    = "of sampling; 0 takes the most likely token",
         .high    = 1000,
         .initial = {0},
         .store   = [](GenerateParams & p, const Values & v) { p.temperature = static_cast<float>(v[0]); }},
        {.name    = "cfg_scale",
         .methods = "all",
         .help    = "classifier-free guidance",
         .high    = 1000,
         .initial = {0},
         .store   = [](GenerateParams & p, const Values & v) { p.cfg_scale = static_cast<float>(v[0]); }},
        {.name        = "threshold",
         .methods     = "all",
         .help        = "confidence at which a position is written",
         .can_be_none = true,
         .store       = [](GenerateParams & p, const Values & v) { p.threshold = optional_float(v); }},
        {.name    = "penalty_lambda",
         .methods = "joint-threshold",
         .help    = "what a logit that repeats the token before its position loses",
         .high    = 1e6,
         .initial = {0},
         .store   = [](GenerateParams & p, const Values & v) { p.repeat_penalty = static_cast<float>(v[0]); }},
        {.name    = "delete_token_id",
         .methods = "joint-threshold-indel",
         .help    = "the token that takes its position out of a block; by default the model's",
         .kind    = Kind::whole,
         .high    = whole_max,
         .store   = [](GenerateParams & p, const Values & v) { p.delete_id = whole(v); }},
        {.name    = "split_token_id",
         .methods = "joint-threshold-indel",
         .help    = "the token that puts a mask before its position; by default the model's",
         .kind    = Kind::whole,
         .high    = whole_max,
         .store   = [](GenerateParams & p, const Values & v) { p.split_id = whole(v); }},
        {.name    = "causal_context",
         .methods = "models with two modes",
         .help    = "read what lies before a block causally, not both ways",
         .kind    = Kind::toggle,
         .initial = {1},
         .store   = [](GenerateParams & p, const Values & v) { p.causal_context = v[0] != 0.0; }},
        {.name        = "max_thinking_tokens",
         .methods     = "models with two modes, autoregressive models",
         .help        = "tokens after which thinking is ended",
         .kind        = Kind::whole,
         .high        = whole_max,
         .can_be_none = true,
         .store       = [](GenerateParams & p,
                     const Values &   v) { p.thinking_budget = v.empty() ? std::nullopt : std::optional(whole(v)); }},
        {.name    = "end_think_token_id",
         .methods = "models with two modes, autoregressive models",
         .help    = "the token that ends thinking; by default </think>",
         .kind    = Kind::whole,
         .high    = whole_max,
         .store   = [](GenerateParams & p, const Values & v) { p.end_think_id = whole(v); }},
        {.name        = "factor",
         .methods     = "all",
         .help        = "of Fast-dLLM's factor rule",
         .high        = 1e6,
         .can_be_none = true,
         .store       = [](GenerateParams & p, const Values & v) { p.factor = optional_float(v); }},
        {.name    = "max_denoising_steps",
         .methods = "canvases",
         .help    = "steps of a canvas; this and the next six by default as the model recommends",
         .kind    = Kind::whole,
         .low     = 1,
         .high    = 1e6,
         .initial = {48}},
        {.name    = "t_min",
         .methods = "canvases",
         .help    = "temperature that a canvas nears",
         .high    = 1000,
         .initial = {0.4}},
        {.name    = "t_max",
         .methods = "canvases",
         .help    = "temperature that a canvas begins with",
         .high    = 1000,
         .initial = {0.8}},
        {.name    = "entropy_bound",
         .methods = "canvases",
         .help    = "entropy up to which the surest positions keep their tokens; the others become random again",
         .high    = 1e6,
         .initial = {0.1}},
        {.name    = "stability_threshold",
         .methods = "canvases",
         .help    = "best guesses before the last one that must agree with it for a canvas to be finished early",
         .kind    = Kind::whole,
         .high    = 1e6,
         .initial = {1}},
        {.name    = "confidence_threshold",
         .methods = "canvases",
         .help    = "mean entropy below which a canvas is finished early",
         .high    = 1e6,
         .initial = {0.005}},
        {.name    = "pad_token_id",
         .methods = "canvases",
         .help    = "the token that follows the end of a text",
         .kind    = Kind::whole,
         .high    = whole_max,
         .initial = {0}},
        {.name    = "draw",
         .methods = "canvases",
         .help    = "how a token is taken from its distribution",
         .kind    = Kind::choice,
         .high    = 1,
         .initial = {0},
         .choices = {"inverse_cdf", "argmax"}},
        {.name    = "num_transfer_tokens",
         .methods = "d2, dllm",
         .help    = "positions that a step writes at least; by default as the steps make due",
         .kind    = Kind::whole,
         .low     = 1,
         .high    = whole_max},
        {.name        = "sigma",
         .methods     = "d2, dllm",
         .help        = "width of the certainty density that confidence is multiplied by",
         .low         = 1e-3,
         .high        = 1e6,
         .initial     = {10},
         .can_be_none = true},
        {.name    = "cache_sigma",
         .methods = "d2",
         .help    = "the same, for choosing the masks to compute",
         .low     = 1e-3,
         .high    = 1e6,
         .initial = {10}},
        {.name    = "rollout_p",
         .methods = "d2",
         .help    = "share of the attention rollout that is computed again",
         .initial = {0.1}},
        {.name    = "current_k",
         .methods = "d2",
         .help    = "masks that a pass computes",
         .kind    = Kind::whole,
         .low     = 1,
         .high    = whole_max,
         .initial = {32}},
        {.name    = "inflate_w",
         .methods = "d2",
         .help    = "neighbours at most that far apart have everything between them computed too",
         .kind    = Kind::whole,
         .high    = whole_max,
         .initial = {0}},
        {.name    = "code_as_is",
         .methods = "d2",
         .help    = "as the authors' code does it, where that differs from what it means to do",
         .kind    = Kind::toggle,
         .initial = {0}},
        {.name    = "kp",
         .methods = "dllm",
         .help    = "passes after which the prompt is computed again",
         .kind    = Kind::whole,
         .low     = 1,
         .high    = whole_max,
         .initial = {50}},
        {.name    = "kr",
         .methods = "dllm",
         .help    = "passes after which the answer is",
         .kind    = Kind::whole,
         .low     = 1,
         .high    = whole_max,
         .initial = {7}},
        {.name    = "rho",
         .methods = "dllm",
         .help    = "share of the answer that is computed in between",
         .initial = {0.25}},
        {.name    = "tau_stale",
         .methods = "anchor",
         .help = "a stored row's attention to what was written since, times the attention it receives from the masks, "
                 "above which it is computed again",
         .initial = {0.02}},
        {.name    = "window_length",
         .methods = "elastic",
         .help    = "masks that may be written",
         .kind    = Kind::whole,
         .low     = 1,
         .high    = whole_max,
         .initial = {16}},
        {.name    = "gamma",
         .methods = "elastic",
         .help    = "similarity of the attention below which it has drifted",
         .low     = -1,
         .initial = {0.9}},
        {.name    = "track_num",
         .methods = "elastic",
         .help    = "positions of each layer whose attention is compared",
         .kind    = Kind::whole,
         .low     = 1,
         .high    = whole_max,
         .initial = {1}},
        {.name    = "tokens_per_iter",
         .methods = "elastic",
         .help    = "positions that a step writes, without a threshold",
         .kind    = Kind::whole,
         .low     = 1,
         .high    = whole_max,
         .initial = {1}},
        {.name    = "block_caching",
         .methods = "elastic",
         .help    = "compute the window only, not all masks",
         .kind    = Kind::toggle,
         .initial = {1}},
        {.name    = "eos_id",
         .methods = "daedal, elastic",
         .help =
             "daedal: the end token to look for, by default the vocabulary's; elastic: a token behind which masks stay",
         .kind = Kind::whole,
         .low  = -1,
         .high = whole_max},
        {.name    = "initial_gen_length",
         .methods = "daedal",
         .help    = "tokens that the answer begins with",
         .kind    = Kind::whole,
         .low     = 1,
         .high    = whole_max,
         .initial = {64}},
        {.name    = "high_conf_threshold",
         .methods = "daedal",
         .help    = "confidence above which a position is written",
         .initial = {0.9}},
        {.name    = "low_conf_threshold",
         .methods = "daedal",
         .help    = "confidence below which a position becomes several",
         .initial = {0.1}},
        {.name    = "expansion_factor",
         .methods = "daedal",
         .help    = "as many, and by as many the canvas grows at first",
         .kind    = Kind::whole,
         .low     = 1,
         .high    = whole_max,
         .initial = {8}},
        {.name    = "eos_confidence_threshold",
         .methods = "daedal",
         .help    = "confidence in the end of the text at which the canvas is long enough to begin with",
         .initial = {0.5}},
        {.name    = "expand_eos_confidence_threshold",
         .methods = "daedal",
         .help    = "confidence in the end of the text from which on positions no longer become several",
         .initial = {0.9}},
        {.name    = "eos_check_tokens",
         .methods = "daedal",
         .help    = "predicted end tokens that this confidence is the mean of",
         .kind    = Kind::whole,
         .low     = 1,
         .high    = whole_max,
         .initial = {32}},
        {.name            = "relaxed_threshold",
         .methods         = "localleap",
         .help            = "confidence that is enough near a position above the threshold",
         .initial         = {0.75},
         .initial_shifted = {0.8}},
        {.name    = "radius",
         .methods = "localleap",
         .help    = "how far near is",
         .kind    = Kind::whole,
         .high    = whole_max,
         .initial = {4}},
        {.name            = "conf_threshold",
         .methods         = "klass",
         .help            = "confidence that a settled position needs",
         .initial         = {0.6},
         .initial_shifted = {0.9}},
        {.name            = "kl_threshold",
         .methods         = "klass",
         .help            = "divergence between passes below which a position has settled",
         .high            = 1e6,
         .initial         = {0.015},
         .initial_shifted = {0.001}},
        {.name    = "kl_history_length",
         .methods = "klass",
         .help    = "passes that must be below it",
         .kind    = Kind::whole,
         .low     = 1,
         .high    = 1000,
         .initial = {2}},
        {.name    = "unmask_strategy",
         .methods = "klass",
         .help    = "which of the settled positions to write",
         .kind    = Kind::choice,
         .high    = 2,
         .initial = {0},
         .choices = {"all", "max_conf", "min_kl"}},
        {.name    = "attn_layers",
         .methods = "dawn",
         .help    = "layers whose attention is averaged; by default the last four",
         .kind    = Kind::list,
         .high    = 10000},
        {.name    = "tau_conf",
         .methods = "dawn",
         .help    = "confidence at which a position is written anyway, and is an anchor once it is",
         .initial = {0.9}},
        {.name            = "tau_low",
         .methods         = "dawn",
         .help            = "confidence that a position needs to be written with others",
         .initial         = {0.7},
         .initial_shifted = {0.8}},
        {.name            = "tau_induce",
         .methods         = "dawn",
         .help            = "confidence that is enough for a position that attends to an anchor",
         .initial         = {0.7},
         .initial_shifted = {0.75}},
        {.name            = "tau_edge",
         .methods         = "dawn",
         .help            = "attention from which on a position depends on another",
         .initial         = {0.07},
         .initial_shifted = {0.1}},
        {.name            = "tau_sink",
         .methods         = "dawn",
         .help            = "mean attention received above which a position is a sink, on which nothing depends",
         .initial         = {0.01},
         .initial_shifted = {0.03}},
        {.name    = "position0_overwrite",
         .methods = "dawn",
         .help    = "a bug of the reference; only false",
         .kind    = Kind::toggle,
         .initial = {0}},
        {.name    = "threshold_back",
         .methods = "wino",
         .help    = "probability below which a token is taken back",
         .initial = {0.9}},
        {.name    = "accept_ratio",
         .methods = "wino",
         .help    = "share of the masks that a step may write",
         .initial = {0.7}},
        {.name    = "accept_min",
         .methods = "wino",
         .help    = "but as many at least",
         .kind    = Kind::whole,
         .low     = 1,
         .high    = whole_max,
         .initial = {5}},
        {.name    = "accept_max",
         .methods = "wino",
         .help    = "and as many at most",
         .kind    = Kind::whole,
         .low     = 1,
         .high    = whole_max,
         .initial = {20}},
        {.name    = "last_accept_init",
         .methods = "wino",
         .help = "a step takes back fewer than the step before wrote; what counts as that at the beginning of a block",
         .kind = Kind::whole,
         .low  = 1,
         .high = whole_max,
         .initial = {30}},
    };
    return rows;
}

const SettingRow * find_row(const std::string & name) {
    const auto found =
        std::find_if(table().begin(), table().end(), [&](const SettingRow & row) { return name == row.name; });
    return found == table().end() ? nullptr : &*found;
}

std::string text_of(const SettingRow & row, const std::vector<double> & values) {
    if (row.kind == SettingKind::choice && !values.empty()) {
        return row.choices[static_cast<size_t>(values[0])];
    }
    std::string text;
    for (const double value : values) {
        text += (text.empty() ? "" : ",") + concat(value);
    }
    return !text.empty() ? text : row.can_be_none ? "none" : "the model's";
}

std::string initial_text(const SettingRow & row) {
    return text_of(row, row.initial) +
           (row.initial_shifted.empty() ? "" : concat(" (shifted models ", text_of(row, row.initial_shifted), ")"));
}

std::string expected_text(const SettingRow & row) {
    if (row.kind == SettingKind::choice) {
        std::string names;
        for (const char * choice : row.choices) {
            names += (names.empty() ? "" : ", ") + std::string(choice);
        }
        return names;
    }
    if (row.kind == SettingKind::toggle) {
        return "true or false";
    }
    return concat(row.kind == SettingKind::number ? "a number" : "a whole number", " from ", row.low, " to ", row.high,
                  row.kind == SettingKind::list ? ", or several separated by commas" : "",
                  row.can_be_none ? ", or none" : "");
}

bool is_allowed(const SettingRow & row, double value) {
    const bool whole_only = row.kind != SettingKind::number;
    return value >= row.low && value <= row.high && (!whole_only || value == std::floor(value));
}

std::optional<double> parse_value(const SettingRow & row, const std::string & text) {
    if (row.kind == SettingKind::choice) {
        const auto found =
            std::find_if(row.choices.begin(), row.choices.end(), [&](const char * choice) { return text == choice; });
        return found == row.choices.end() ? std::nullopt
                                          : std::optional(static_cast<double>(found - row.choices.begin()));
    }
    if (row.kind == SettingKind::toggle) {
        return text == "true" || text == "1"    ? std::optional(1.0)
               : text == "false" || text == "0" ? std::optional(0.0)
                                                : std::nullopt;
    }
    const auto number = parse_number<double>(text);
    return number && is_allowed(row, *number) ? number : std::nullopt;
}

} // namespace

std::vector<MethodSettingInfo> method_settings() {
    std::vector<MethodSettingInfo> all;
    for (const SettingRow & row : table()) {
        all.push_back({row.name, row.methods, initial_text(row), row.help});
    }
    return all;
}

void apply_setting(GenerateParams & params, const std::string & name, const std::string & value) {
    const SettingRow * row = find_row(name);
    if (row == nullptr) {
        std::string known;
        for (const MethodSettingInfo & info : method_settings()) {
            known += concat(known.empty() ? "" : ", ", info.name, " ", info.initial);
        }
        fail("there is no setting ", in_quotes(name), "; those there are, with their defaults: ", known);
    }
    std::vector<double> values;
    if (!row->can_be_none || value != "none") {
        const bool is_list = row->kind == SettingKind::list;
        for (const std::string & part : is_list ? split(value) : std::vector<std::string>{value}) {
            const std::optional<double> number = parse_value(*row, part);
            if (!number) {
                fail("setting ", name, ": ", in_quotes(value), " is not ", expected_text(*row));
            }
            values.push_back(*number);
        }
    }
    if (row->store != nullptr) {
        row->store(params, values);
    } else {
        params.settings[name] = values;
    }
}

void apply_setting(GenerateParams & params, const std::string & text) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
        fail(in_quotes(text), " is not NAME=VALUE");
    }
    apply_setting(params, text.substr(0, equals), text.substr(equals + 1));
}

std::vector<std::pair<std::string, std::string>> constants_of(const std::string & method, const GenerateParams & params,
                                                              bool shift) {
    const SettingReader                              reader(params, shift);
    std::vector<std::pair<std::string, std::string>> found;
    for (const SettingRow & row : table()) {
        const std::vector<std::string> methods = split(row.methods, ", ");
        if (row.store == nullptr && std::find(methods.begin(), methods.end(), method) != methods.end()) {
            found.emplace_back(row.name, text_of(row, reader.values(row.name)));
        }
    }
    return found;
}

void check_settings(const MethodSettings & settings) {
    for (const auto & [name, values] : settings) {
        const SettingRow * row = find_row(name);
        if (row == nullptr || row->store != nullptr) {
            fail("there is no method setting ", in_quotes(name));
        }
        const bool counted =
            row->kind == SettingKind::list || values.size() == 1 || (values.empty() && row->can_be_none);
        const double high = row->kind == SettingKind::choice ? static_cast<double>(row->choices.size()) - 1 : row->high;
        const bool   valid = std::all_of(values.begin(), values.end(),
                                         [&](double value) { return is_allowed(*row, value) && value <= high; });
        if (!counted || !valid) {
            fail("setting ", name, " has ", values.size(), " values or one out of range, expected ",
                 expected_text(*row));
        }
    }
}

std::vector<double> SettingReader::values(const char * name) const {
    const auto given = params_.settings.find(name);
    if (given != params_.settings.end()) {
        return given->second;
    }
    const SettingRow * row = find_row(name);
    if (row == nullptr) {
        fail("there is no method setting ", in_quotes(name));
    }
    return shift_ && !row->initial_shifted.empty() ? row->initial_shifted : row->initial;
}

double SettingReader::number(const char * name) const {
    const std::vector<double> all = values(name);
    if (all.empty()) {
        fail("setting ", name, " is turned off, and is needed here");
    }
    return all[0];
}

std::optional<double> SettingReader::optional(const char * name) const {
    const std::vector<double> all = values(name);
    return all.empty() ? std::nullopt : std::optional(all[0]);
}

std::vector<int32_t> SettingReader::list(const char * name) const {
    std::vector<int32_t> numbers;
    for (const double value : values(name)) {
        numbers.push_back(static_cast<int32_t>(value));
    }
    return numbers;
}

} // namespace buoy
