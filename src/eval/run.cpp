#include "eval/run.h"

#include "base/file-name.h"
#include "buoy/edit.h"
#include "buoy/message.h"
#include "buoy/names.h"
#include "buoy/preset.h"
#include "buoy/utf8.h"
#include "buoy/version.h"
#include "decode/generation-json.h"
#include "eval/attention-edits.h"
#include "eval/hash.h"
#include "eval/prompt.h"
#include "eval/score.h"
#include "io/gguf-file.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace buoy {

namespace {

using Json = nlohmann::ordered_json;

// An answer to be given.
struct Task {
    const QaItem *      item      = nullptr;
    const QaCondition * condition = nullptr;
};

// What every model is asked, in the order of the result file.
std::vector<Task> make_tasks(const QaRun & run, const QaConditions & conditions) {
    std::vector<Task> tasks;
    for (size_t i = run.shard; i < run.n_items; i += run.n_shards) {
        const QaItem & item = run.dataset->items[i];
        for (const QaCondition & condition : run.conditions) {
            if (conditions.applies(condition, item)) {
                tasks.push_back({&item, &condition});
            }
        }
    }
    return tasks;
}

// The one asked for, of the model or of all; empty: neither.
std::string mode_of(const QaRun & run, const QaModel & model) {
    const std::optional<ModelMode> mode = model.mode ? model.mode : run.model.mode;
    const bool                     spec = model.mode ? model.speculate : run.generate.speculate;
    return !mode ? "" : spec ? "spec" : name_of(mode_names, *mode);
}

Json settings_of(const QaRun & run) {
    Json models = Json::array(), conditions = Json::array();
    for (const QaModel & model : run.models) {
        models.push_back({{"name", model.name}, {"hash", model.hash}});
        if (const std::string mode = mode_of(run, model); !mode.empty()) {
            models.back()["mode"] = mode;
        }
        if (run.model.force_causal) {
            models.back()["force_causal"] = true;
        }
    }
    for (const QaCondition & condition : run.conditions) {
        Json json = {{"name", condition.name}, {"passages", condition.n_passages}};
        for (const EditSpec & edit : condition.edits) {
            json["edits"].push_back(utf8_repair(edit.text));
        }
        conditions.push_back(json);
    }
    const char * unpack = name_of(unpack_names, run.model.unpack);
    return {
        {"version", version()},
        {"dataset", {{"name", utf8_repair(run.dataset->name)}, {"hash", run.dataset->hash}}},
        {"items", run.n_items},
        {"models", models},
        {"conditions", conditions},
        {"template", utf8_repair(run.form.text())},
        {"raw", run.raw},
        {"seed", run.generate.seed},
        {"ignore_eos", run.ignore_eos},
        {"unpack", unpack},
        {"attention", run.probe_name},
        {"engine", asked_json(run.context)},
        {"generate", asked_json(run.generate)},
    };
}

bool is_edited(const QaRun & run) {
    return std::any_of(run.conditions.begin(), run.conditions.end(),
                       [](const QaCondition & condition) { return !condition.edits.empty(); });
}

// A loaded model that answers.
class Answerer {
public:
    Answerer(const QaRun & run, const QaModel & model)
        : run_(run), name_(model.name), file_(model.path), vocab_(file_.vocab()), params_(run.generate) {
        ContextParams context = run.context;
        context.n_sequences   = sequence_count(run.generate);
        if (context.flash == FlashAttention::automatic && (is_edited(run) || run.probe)) {
            context.flash = FlashAttention::off; // else a layer that is looked at differs in rounding
        }
        ModelParams how   = run.model;
        how.mode          = model.mode ? model.mode : how.mode;
        params_.speculate = model.mode ? model.speculate : params_.speculate;
        context_          = load_context(file_, how, context);
        settle_preset();
        const Traits & kind = context_->info().traits;
        // as the paper's authors decode LLaDA: all positions at once
        const bool blocks = params_.cache != DiffusionCache::elastic && !params_.auto_length;
        if (blocks && params_.block_length == 0 && kind.attention == AttentionKind::full && !kind.shift &&
            !kind.two_modes && !params_.eps) {
            params_.block_length = params_.n_predict;
        }
        if (!run.ignore_eos) {
            params_.end_ids = vocab_.end_ids();
        }
        check_params(params_, context_->info());
        if (is_edited(run)) {
            check_can_edit(context_->model());
        }
        const bool    whole_blocks = kind.attention == AttentionKind::block_causal;
        const int32_t n_block      = params_.block_length > 0 ? params_.block_length : kind.block_length;
        rules_                     = {run.raw, params_.n_predict, context_->n_ctx() - (whole_blocks ? n_block - 1 : 0)};
        if (rules_.n_max <= rules_.n_predict) {
            fail(printable(name_), ": an answer of ", rules_.n_predict,
                 " tokens leaves no room for a question in a context of ", context_->n_ctx());
        }
    }

    QaResult answer(const QaItem & item, const QaCondition & condition, const QaShown & shown) {
        const QaPrompt prompt = make_qa_prompt(vocab_, run_.form, rules_, item.question, shown.passages);
        QaResult       result;
        result.model      = name_;
        result.condition  = condition.name;
        result.item       = item.index;
        result.id         = item.id;
        result.n_passages = prompt.passages.size();
        for (size_t i = 0; i < prompt.passages.size(); i++) {
            if (prompt.passages[i].gold) {
                result.gold.push_back(i + 1);
            }
        }
        result.cut          = prompt.cut;
        result.too_long     = prompt.too_long;
        result.false_answer = shown.false_answer;
        if (!prompt.too_long) {
            generate_answer(item, condition, prompt, result);
        }
        return result;
    }

private:
    void settle_preset() {
        if (!params_.preset) {
            return;
        }
        AppliedPreset applied = apply_preset(params_, context_->info());
        std::string   text    = applied.note;
        if (applied.note.empty()) {
            text = concat("preset ", name_of(preset_names, *params_.preset), ":");
            for (const std::string & setting : applied.settings) {
                text += " " + setting;
            }
        }
        if (run_.model.log) {
            run_.model.log(applied.note.empty() ? LogLevel::info : LogLevel::notice, printable(name_) + ": " + text);
        }
        params_ = std::move(applied.params);
    }

    void generate_answer(const QaItem & item, const QaCondition & condition, const QaPrompt & prompt,
                         QaResult & result) {
        GenerateParams params = params_;
        params.seed           = hash_number(concat(run_.generate.seed, "/", item.id)); // else all draw the same numbers
        const std::unique_ptr<QaProbe> probe = run_.probe ? run_.probe(*context_, vocab_, item, prompt) : nullptr;
        const std::unique_ptr<AttentionEditor> editor = make_qa_editor(condition, *context_, prompt, params);
        if (editor) {
            editor->attach(params);
        }
        if (probe) {
            probe->attach(params);
        }
        const Generation generation = generate(*context_, prompt.tokens, params);
        result.prediction           = vocab_.decode(generation.tokens);
        result.scores               = score_answer(result.prediction, item.answers);
        result.misled = !result.false_answer.empty() && has_answer(result.prediction, {result.false_answer});
        if (probe) {
            result.attention = probe->result(generation, result.prediction, result.scores);
        }
    }

    const QaRun &            run_;
    std::string              name_;
    ModelFile                file_;
    Vocab                    vocab_;
    GenerateParams           params_;
    PromptRules              rules_;
    std::unique_ptr<Context> context_;
};

// What the file has must be what this run begins with.
void check_found(const QaRun & run, const std::vector<QaResult> & found, const std::vector<Task> & tasks) {
    for (size_t i = 0; i < found.size(); i++) {
        const size_t model = i / tasks.size();
        const Task & task  = tasks[i % tasks.size()];
        if (model >= run.models.size() || found[i].model != run.models[model].name ||
            found[i].condition != task.condition->name || found[i].item != task.item->index) {
            fail(printable(run.output), ":", i + 2, ": not the question or condition that this run asks there");
        }
    }
}

} // namespace

namespace {

// Takes ":ar" and the like off a path, unless that is the name of a file.
std::string take_mode(std::string & path, QaModel & model) {
    std::error_code error;
    for (const char * mode : {":ar", ":diffusion", ":spec"}) {
        const std::string end = mode;
        if (path.size() > end.size() && path.ends_with(end) && !std::filesystem::exists(path, error)) {
            path.resize(path.size() - end.size());
            model.mode      = end == ":ar" ? ModelMode::ar : ModelMode::diffusion;
            model.speculate = end == ":spec";
            return end;
        }
    }
    return "";
}

} // namespace

std::vector<QaModel> name_models(const std::vector<std::string> & paths) {
    std::vector<QaModel>  models;
    std::set<std::string> taken;
    for (std::string path : paths) {
        QaModel           model;
        const std::string mode = take_mode(path, model);
        const std::string stem = utf8_repair(std::filesystem::path(path).stem().string()) + mode;
        std::string       name = stem;
        for (int i = 2; !taken.insert(name).second; i++) {
            name = stem + "-" + std::to_string(i);
        }
        const GgufFile file = GgufFile::open(path);
        std::string    hashes;
        for (const std::string & part : file.paths()) {
            hashes += hash_file(part);
        }
        model.name = name;
        model.path = path;
        model.hash = hash_text(hashes);
        models.push_back(model);
    }
    return models;
}

std::string default_output(const QaRun & run) {
    std::string name = std::filesystem::path(run.dataset->name).filename().string();
    for (const char * end : {".gz", ".jsonl", ".json"}) {
        const std::string suffix = end;
        if (name.size() > suffix.size() && name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0) {
            name.resize(name.size() - suffix.size());
        }
    }
    const std::string shard = run.n_shards > 1 ? concat("-", run.shard + 1, "-of-", run.n_shards) : "";
    return concat(file_name_of(name, "questions"), "-", hash_text(settings_of(run).dump()).substr(0, 8), shard,
                  ".results.jsonl");
}

bool run_qa(const QaRun & run) {
    if (run.generate.n_predict < 1) {
        fail("an answer needs at least one token, `n_predict` is ", run.generate.n_predict);
    }
    const QaConditions      conditions(run.dataset->items, run.generate.seed);
    const std::vector<Task> tasks = make_tasks(run, conditions);
    if (tasks.empty()) {
        fail(printable(run.dataset->name), ": no condition applies to any of the questions");
    }
    for (const Task & task : tasks) {
        conditions.show(*task.condition,
                        *task.item); // what can't be drawn is told before the first answer, not at the last
    }
    const QaHeader header = {settings_of(run), run.n_items, tasks.size() * run.models.size(), run.shard, run.n_shards};
    ResultWriter   file(run.output, header);
    check_found(run, file.found(), tasks);
    const size_t n_found  = file.found().size();
    QaProgress   progress = {"", n_found, n_found, header.n_results};
    for (size_t m = n_found / tasks.size(); m < run.models.size(); m++) {
        progress.model = run.models[m].name;
        Answerer answerer(run, run.models[m]);
        while (progress.n_done < (m + 1) * tasks.size()) {
            if (run.stopped && run.stopped()) {
                return false;
            }
            const Task & task = tasks[progress.n_done % tasks.size()];
            file.append(answerer.answer(*task.item, *task.condition, conditions.show(*task.condition, *task.item)));
            progress.n_done++;
            if (run.progress) {
                run.progress(progress);
            }
        }
    }
    file.finish();
    return true;
}

} // namespace buoy
