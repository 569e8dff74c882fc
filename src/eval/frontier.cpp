#include "buoy/frontier.h"

#include "analysis/statistics.h"
#include "buoy/message.h"
#include "buoy/parse.h"
#include "buoy/preset.h"
#include "decode/generation-json.h"
#include "eval/dataset.h"
#include "eval/hash.h"
#include "eval/prompt.h"
#include "eval/score.h"
#include "eval/story.h"
#include "eval/template.h"
#include "io/gzip.h"
#include "io/json-file.h"
#include "io/pending-file.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>

namespace buoy {

namespace {

using Json = nlohmann::ordered_json;

// What one method did with all questions.
struct Measured {
    FrontierMethod      method;
    std::vector<double> right; // 0 or 1, by question
    int64_t             n_forward = 0;
    int64_t             n_rows    = 0; // of all layers
    int64_t             n_tokens  = 0;
    double              seconds   = 0.0;

    double tokens_per_second() const { return seconds > 0.0 ? static_cast<double>(n_tokens) / seconds : 0.0; }
};

// A preset's name gives way to what it means.
GenerateParams params_of(const FrontierParams & run, FrontierMethod & method, const ModelInfo & info,
                         const Vocab & vocab) {
    GenerateParams params = run.generate;
    for (const std::string & setting : split(method.settings, " ")) {
        if (!setting.empty()) {
            apply_setting(params, setting);
        }
    }
    params.end_ids = vocab.end_ids();
    check_params(params, info);
    AppliedPreset applied = apply_preset(params, info);
    if (!applied.note.empty()) {
        fail(applied.note);
    }
    if (params.preset) {
        method.settings.clear();
        for (const std::string & setting : applied.settings) {
            method.settings += (method.settings.empty() ? "" : " ") + setting;
        }
    }
    return std::move(applied.params);
}

Json to_json(const Measured & m, const std::string & key) {
    return {{"key", key},           {"method", m.method.name}, {"settings", m.method.settings},
            {"right", m.right},     {"forwards", m.n_forward}, {"rows", m.n_rows},
            {"tokens", m.n_tokens}, {"seconds", m.seconds}};
}

// Lines of another run are refused, as adding to them would mix two.
std::map<std::string, Measured> load_measured(const std::string & path, const std::string & key) {
    std::map<std::string, Measured> found;
    if (path.empty() || !std::filesystem::exists(path)) {
        return found;
    }
    for (const std::string & line : split(load_text(path), "\n")) {
        if (line.empty()) {
            continue;
        }
        const Json json = parse_json(line, printable(path));
        try {
            if (json.at("key") != key) {
                fail(printable(path),
                     ": made with other questions, settings or another model; choose another `output`");
            }
            Measured & m = found[json.at("settings")];
            m.method     = {json.at("method"), json.at("settings")};
            m.right      = json.at("right").get<std::vector<double>>();
            m.n_forward  = json.at("forwards");
            m.n_rows     = json.at("rows");
            m.n_tokens   = json.at("tokens");
            m.seconds    = json.at("seconds");
        } catch (const Json::exception & error) {
            fail(printable(path), ": ", printable(error.what(), 200));
        }
    }
    return found;
}

void save_measured(const std::string & path, const std::vector<Measured> & all, const std::string & key) {
    if (path.empty()) {
        return;
    }
    std::string text;
    for (const Measured & m : all) {
        text += json_line(to_json(m, key));
    }
    PendingFile file(path, true);
    file.write(text.data(), text.size());
    file.commit();
}

// What is asked, and what is right: questions with passages, or requests for stories.
class Tasks {
public:
    explicit Tasks(const std::string & path) {
        const std::string text = load_unpacked(path);
        if (!has_stories(text)) {
            questions_ = parse_dataset(path, text);
            return;
        }
        stories_        = parse_stories(path, text);
        questions_.hash = stories_->hash;
        for (const std::string & request : stories_->requests) {
            QaItem & item = questions_.items.emplace_back();
            item.id       = std::to_string(questions_.items.size());
            item.question = request;
        }
    }

    const std::string & hash() const { return questions_.hash; }
    size_t              size() const { return questions_.items.size(); }
    const QaItem &      operator[](size_t i) const { return questions_.items[i]; }
    bool                are_stories() const { return stories_.has_value(); }

    double score(const QaItem & item, const std::string & text) const {
        return stories_ ? (stories_->is_right(item.question, text) ? 1.0 : 0.0) : score_answer(text, item.answers).acc;
    }

private:
    QaDataset               questions_;
    std::optional<StorySet> stories_;
};

// A request for a story is a prompt as it is.
PromptTemplate form_of(const FrontierParams & run, const Tasks & tasks) {
    return !run.form.empty()     ? PromptTemplate::load(run.form)
           : tasks.are_stories() ? PromptTemplate("stories", "{{question}}")
                                 : PromptTemplate::standard();
}

class Asker {
public:
    explicit Asker(const FrontierParams & run)
        : run_(run), file_(run.model), vocab_(file_.vocab()), tasks_(run.data), form_(form_of(run, tasks_)) {
        ContextParams params = run.context;
        params.n_sequences   = sequence_count(run.generate);
        context_             = load_context(file_, run.model_params, params);
        n_items_             = tasks_.size();
        n_items_             = run.n_items > 0 ? std::min(run.n_items, n_items_) : n_items_;
        if (n_items_ == 0) {
            fail(printable(run.data), ": no questions there");
        }
    }

    const ModelInfo & info() const { return context_->info(); }
    const Vocab &     vocab() const { return vocab_; }

    std::string key() const {
        const Json settings = {
            {"model", hash_file(run_.model)},       {"data", tasks_.hash()},    {"items", n_items_},
            {"passages", run_.n_passages},          {"template", form_.text()}, {"engine", asked_json(run_.context)},
            {"generate", asked_json(run_.generate)}};
        return hash_text(settings.dump());
    }

    // False: stopped.
    bool ask(Measured & m, const GenerateParams & params) {
        const PromptRules rules = {false, params.n_predict, context_->n_ctx()};
        if (run_.begins) {
            run_.begins(m.method);
        }
        for (size_t i = m.right.size(); i < n_items_; i++) {
            if (run_.stopped && run_.stopped()) {
                return false;
            }
            const QaItem &         item     = tasks_[i];
            std::vector<QaPassage> passages = item.passages;
            passages.resize(std::min(passages.size(), run_.n_passages));
            const QaPrompt prompt = make_qa_prompt(vocab_, form_, rules, item.question, passages);
            if (prompt.too_long) {
                fail(printable(run_.data), ": question ", i + 1, " does not fit into the context of ",
                     context_->n_ctx());
            }
            GenerateParams own      = params;
            own.seed                = hash_number(concat(params.seed, "/", item.id));
            const int64_t    n_rows = context_->stats().n_layer_rows;
            const Generation out    = generate(*context_, prompt.tokens, own);
            m.right.push_back(tasks_.score(item, vocab_.decode(out.tokens)));
            m.n_forward += out.n_forward;
            m.n_rows += context_->stats().n_layer_rows - n_rows;
            m.n_tokens += static_cast<int64_t>(out.tokens.size());
            m.seconds += (out.prompt_ms + out.decode_ms) / 1000.0;
            if (run_.progress) {
                run_.progress(i + 1, n_items_);
            }
        }
        return true;
    }

private:
    const FrontierParams &   run_;
    ModelFile                file_;
    Vocab                    vocab_;
    Tasks                    tasks_;
    PromptTemplate           form_;
    std::unique_ptr<Context> context_;
    size_t                   n_items_ = 0;
};

constexpr uint32_t resample_seed = 1;

struct Difference {
    double mean = 0.0, low = 0.0, high = 0.0;
};

// Paired by question.
Difference difference(const Measured & m, const Measured & exact) {
    std::vector<double> values;
    for (size_t i = 0; i < m.right.size(); i++) {
        values.push_back(m.right[i] - exact.right[i]);
    }
    const auto [low, high] = analysis::bootstrap_mean(values, resample_seed);
    return {analysis::mean_of(values), low, high};
}

double ratio(double a, double b) { return b > 0.0 ? a / b : 0.0; }

figure::LineChart accuracy_chart(const char * x) {
    figure::LineChart chart;
    chart.x.label   = x;
    chart.y.label   = "accuracy";
    chart.y.percent = true;
    return chart;
}

void add_point(figure::LineChart & chart, const std::string & method, double x, double y) {
    auto series = std::find_if(chart.series.begin(), chart.series.end(),
                               [&](const figure::Series & s) { return s.name == method; });
    if (series == chart.series.end()) {
        chart.series.push_back({.name = method, .x = {}, .y = {}, .low = {}, .high = {}});
        series = chart.series.end() - 1;
    }
    series->x.push_back(x);
    series->y.push_back(y);
}

void describe(const std::vector<Measured> & all, bool one_run, FrontierReport & report) {
    report.table.columns       = {{"method"},        {"settings"},    {"accuracy %", 1}, {"low", 1},    {"high", 1},
                                  {"less exact", 1}, {"low", 1},      {"high", 1},       {"passes", 1}, {"rows", 0},
                                  {"fewer rows", 1}, {"tokens/s", 1}, {"faster", 1}};
    report.table.n_keys        = 2;
    Json              rows     = Json::array();
    figure::LineChart by_speed = accuracy_chart("tokens per second"),
                      by_rows  = accuracy_chart("times fewer rows than exact");
    for (const Measured & m : all) {
        const Measured & exact = all[0];
        const auto       n     = static_cast<double>(m.right.size());
        const double     acc   = analysis::mean_of(m.right);
        const auto [low, high] = analysis::bootstrap_mean(m.right, resample_seed);
        const Difference less  = difference(m, exact);
        const double     speed = m.tokens_per_second();
        const double     fewer = ratio(static_cast<double>(exact.n_rows), static_cast<double>(m.n_rows));
        const double     times = ratio(speed, exact.tokens_per_second());
        const auto       each  = [n](int64_t sum) { return static_cast<double>(sum) / n; };
        report.table.rows.push_back({m.method.name, m.method.settings, 100.0 * acc, 100.0 * low, 100.0 * high,
                                     100.0 * less.mean, 100.0 * less.low, 100.0 * less.high, each(m.n_forward),
                                     each(m.n_rows), fewer, speed, times});
        rows.push_back({{"method", m.method.name},
                        {"settings", m.method.settings},
                        {"n", m.right.size()},
                        {"accuracy", {acc, low, high}},
                        {"difference", {less.mean, less.low, less.high}},
                        {"passes", each(m.n_forward)},
                        {"rows", each(m.n_rows)},
                        {"fewer_rows", fewer},
                        {"tokens_per_s", speed},
                        {"faster", times}});
        add_point(by_speed, m.method.name, speed, acc);
        add_point(by_rows, m.method.name, fewer, acc);
    }
    report.json          = json_line(Json{{"methods", rows}});
    report.figure.name   = "frontier";
    report.figure.figure = {.title        = "What ways of decoding cost, and what they lose",
                            .subtitle     = "A line joins the settings of a method.",
                            .caption      = "",
                            .charts       = {by_rows},
                            .columns      = 2,
                            .shared_scale = true};
    if (one_run) { // else the machine may have had more to do in one of them
        report.figure.figure.caption = "Measured in one run on one machine.";
        report.figure.figure.charts  = {by_speed, by_rows};
    }
}

} // namespace

std::vector<FrontierMethod> frontier_methods() {
    return {
        {"exact", ""},
        {"balanced", "preset=balanced"},
        {"fast", "preset=fast"},
        {"threshold", "threshold=0.95"},
        {"threshold", "threshold=0.9"},
        {"threshold", "threshold=0.8"},
        {"threshold", "threshold=0.7"},
        {"localleap", "algorithm=localleap threshold=0.9"},
        {"localleap", "algorithm=localleap threshold=0.8 relaxed_threshold=0.6"},
        {"klass", "algorithm=klass"},
        {"klass", "algorithm=klass kl_threshold=0.05"},
        {"dawn", "algorithm=dawn"},
        {"dawn", "algorithm=dawn tau_low=0.5 tau_induce=0.5"},
        {"wino", "algorithm=wino"},
        {"wino", "algorithm=wino threshold=0.5 threshold_back=0.7"},
        {"plus-one", "algorithm=plus-one threshold=0.95"},
        {"plus-one", "algorithm=plus-one"},
        {"prefix", "cache=prefix threshold=0.9"},
        {"dual", "cache=dual threshold=0.9"},
        {"d2", "cache=d2 threshold=0.9 sigma=none"},
        {"d2", "cache=d2 threshold=0.9 sigma=none current_k=16 rollout_p=0.05"},
        {"elastic", "cache=elastic threshold=0.9"},
        {"elastic", "cache=elastic threshold=0.8 gamma=0.8"},
        {"dllm", "cache=dllm threshold=0.9 sigma=none"},
        {"dllm", "cache=dllm threshold=0.9 sigma=none kr=4 rho=0.1"},
        {"anchor", "cache=anchor threshold=0.9"},
        {"anchor", "cache=anchor threshold=0.9 tau_stale=0.08"},
    };
}

FrontierReport measure_frontier(const FrontierParams & params) {
    if (params.methods.empty() || !params.methods[0].settings.empty()) {
        fail("the first method of a frontier is exact, without settings");
    }
    Asker                           asker(params);
    const std::string               key   = asker.key();
    std::map<std::string, Measured> found = load_measured(params.output, key);
    std::vector<Measured>           all;
    FrontierReport                  report;
    report.complete = true;
    for (FrontierMethod method : params.methods) {
        GenerateParams own;
        try {
            own = params_of(params, method, asker.info(), asker.vocab());
        } catch (const Error & error) {
            report.left_out.push_back(concat(method.name, " (", method.settings, "): ", error.what()));
            continue;
        }
        const auto before = found.find(method.settings);
        Measured   m;
        m.method = method;
        if (before != found.end()) {
            m = before->second;
        } else if (!asker.ask(m, own)) {
            report.complete = false;
            break;
        }
        all.push_back(std::move(m));
        save_measured(params.output, all, key);
    }
    if (!all.empty()) {
        describe(all, found.empty(), report);
    }
    return report;
}

} // namespace buoy
