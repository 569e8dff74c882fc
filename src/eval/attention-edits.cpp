#include "eval/attention-edits.h"

#include "buoy/message.h"
#include "buoy/step-count.h"

#include <algorithm>
#include <limits>

namespace buoy {

namespace {

// Rows before the 16th may see no other key than sinks, and a query must keep one.
const std::vector<ReadyEdit> ready = {
    {"sinks-dropped",
     "no query attends to the sinks",
     {"drop keys=sinks queries=16-"},
     {"drop keys=sinks steps=0 queries=16-", "drop keys=anchors@0 steps=1- queries=16-"}},
    {"anchors-pinned",
     "the first step's anchors weigh e^4 times more at all later steps",
     {"bias keys=anchors@0 +4.0"},
     {"bias keys=anchors@0 +4.0"}},
    {"gold-unseen",
     "the rows that write the answer don't attend to the gold passage",
     {"drop keys=gold queries=writing"},
     {"drop keys=gold queries=writing"}},
};

const ReadyEdit * find_ready(const std::string & name) {
    const auto found =
        std::find_if(ready.begin(), ready.end(), [&](const ReadyEdit & edit) { return edit.name == name; });
    return found == ready.end() ? nullptr : &*found;
}

std::string ready_names() {
    std::string names;
    for (const ReadyEdit & edit : ready) {
        names += (names.empty() ? "" : ", ") + std::string(edit.name);
    }
    return names;
}

bool is_name(const std::string & text) {
    return !text.empty() &&
           text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
               std::string::npos;
}

// One text; a ready edit is a spec that has nothing but its name until the model is known.
QaEdit parse_one(const std::string & text) {
    if (is_name(text)) {
        if (find_ready(text) == nullptr) {
            fail("`edits`: ", in_quotes(text), " is not one of ", ready_names(), ", nor \"NAME: SPEC\"");
        }
        EditSpec spec;
        spec.text = text;
        return {text, {spec}};
    }
    const size_t      colon = text.find(':');
    const std::string name  = text.substr(0, colon);
    if (colon == std::string::npos || !is_name(name)) {
        return {text, {parse_edit(text)}};
    }
    const size_t begin = text.find_first_not_of(' ', colon + 1);
    return {name, {parse_edit(begin == std::string::npos ? "" : text.substr(begin))}};
}

std::vector<EditSpec> specs_for(const std::vector<EditSpec> & specs, bool diffusion) {
    std::vector<EditSpec> out;
    for (const EditSpec & spec : specs) {
        if (const ReadyEdit * edit = find_ready(spec.text)) {
            for (const char * text : diffusion ? edit->diffusion : edit->autoregressive) {
                out.push_back(parse_edit(text));
            }
        } else {
            out.push_back(spec);
        }
    }
    return out;
}

// The prompt's, those it lacks (a question may have fewer passages than another), and the rows that write the answer.
std::vector<Region> regions_for(const QaPrompt & prompt, bool shift, size_t n_passages) {
    std::vector<Region>      regions = prompt.regions;
    std::vector<std::string> names   = {"bos", "question", "gold", "answer", "other"};
    for (size_t i = 1; i <= n_passages; i++) {
        names.push_back("doc" + std::to_string(i));
    }
    for (const std::string & name : names) {
        const bool there =
            std::any_of(regions.begin(), regions.end(), [&](const Region & region) { return region.name == name; });
        if (!there) {
            regions.push_back({name, {}});
        }
    }
    const int32_t first = static_cast<int32_t>(prompt.tokens.size()) - (shift ? 1 : 0);
    regions.push_back({"writing", {{first, first + prompt.n_predict}}});
    return regions;
}

} // namespace

const std::vector<ReadyEdit> & ready_edits() { return ready; }

std::vector<QaEdit> parse_qa_edits(const std::vector<std::string> & texts) {
    std::vector<QaEdit> edits;
    for (const std::string & text : texts) {
        QaEdit     one = parse_one(text);
        const auto same =
            std::find_if(edits.begin(), edits.end(), [&](const QaEdit & e) { return e.name == one.name; });
        if (same == edits.end()) {
            edits.push_back(std::move(one));
        } else if (same->specs[0].text == one.specs[0].text) {
            fail("`edits`: ", in_quotes(text), " is given twice");
        } else {
            same->specs.push_back(one.specs[0]);
        }
    }
    return edits;
}

std::unique_ptr<AttentionEditor> make_qa_editor(const QaCondition & condition, const Context & context,
                                                const QaPrompt & prompt, const GenerateParams & params) {
    if (condition.edits.empty()) {
        return nullptr;
    }
    check_can_edit(context.model());
    const ModelInfo & info    = context.info();
    const auto        n_all   = static_cast<int32_t>(prompt.tokens.size()) + prompt.n_predict;
    const int64_t     n_steps = step_count_max(info, prompt.tokens, params);
    return std::make_unique<AttentionEditor>(
        specs_for(condition.edits, info.traits.is_diffusion()), info,
        regions_for(prompt, info.traits.shift, condition.n_passages), n_all,
        static_cast<int32_t>(std::min<int64_t>(n_steps, std::numeric_limits<int32_t>::max())));
}

} // namespace buoy
