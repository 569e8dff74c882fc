#include "buoy/eval.h"

#include "buoy/message.h"
#include "eval/attention-edits.h"
#include "eval/attention-probe.h"
#include "eval/attention-summary.h"
#include "eval/figures.h"
#include "eval/run.h"
#include "eval/summary.h"
#include "io/json-file.h"

#include <algorithm>

namespace buoy {

struct Evaluation::Impl {
    QaDataset dataset;
    QaRun     run;
};

Evaluation::Evaluation(const QaParams & params) : impl_(std::make_unique<Impl>()) {
    impl_->dataset = load_dataset(params.data);
    QaRun & run    = impl_->run;
    run.conditions = make_conditions(params.plan);
    run.form       = params.form.empty() ? PromptTemplate::standard() : PromptTemplate::load(params.form);
    run.models     = name_models(params.models);
    run.model      = params.model;
    run.context    = params.context;
    run.generate   = params.generate;
    run.ignore_eos = params.ignore_eos;
    run.dataset    = &impl_->dataset;
    run.n_items    = impl_->dataset.items.size();
    run.n_items    = params.n_items > 0 ? std::min(params.n_items, run.n_items) : run.n_items;
    run.shard      = params.shard;
    run.n_shards   = params.n_shards;
    run.raw        = params.raw;
    run.stopped    = params.stopped;
    run.progress   = params.progress;
    if (run.n_shards > run.n_items) {
        fail("`shard`: ", run.n_shards, " shards of ", run.n_items, " questions, expected at most one for each");
    }
    if (params.attention) {
        run.probe      = make_attention_probe;
        run.probe_name = "metrics";
    }
    run.output = params.output.empty() ? default_output(run) : params.output;
}

Evaluation::~Evaluation() = default;

const std::string & Evaluation::output() const { return impl_->run.output; }

bool Evaluation::run() { return run_qa(impl_->run); }

std::vector<std::pair<std::string, std::string>> ready_edit_names() {
    std::vector<std::pair<std::string, std::string>> names;
    for (const ReadyEdit & edit : ready_edits()) {
        names.emplace_back(edit.name, edit.help);
    }
    return names;
}

QaReport report_results(const std::string & path) {
    const QaSummary                summary   = summarize(path);
    const std::vector<QaAttention> attention = summarize_attention(path);
    QaReport                       out;
    out.tables = summary_tables(summary);
    for (const analysis::Table & table : attention_tables(attention)) {
        out.tables.push_back(table);
    }
    out.data                    = summary_csv(summary);
    nlohmann::ordered_json json = summary_json(summary);
    if (!attention.empty()) {
        json["attention"] = attention_json(attention);
    }
    out.json        = json_line(json);
    out.n_results   = summary.n_results;
    out.n_expected  = summary.n_expected;
    out.figures     = qa_figures(summary, attention);
    out.conclusions = summary_conclusions(summary);
    return out;
}

} // namespace buoy
