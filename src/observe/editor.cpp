#include "buoy/edit.h"
#include "buoy/message.h"
#include "engine/request-check.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace buoy {

namespace {

using Positions = std::vector<int32_t>; // ascending, each once

void unite(Positions & all, const Positions & more) {
    Positions both;
    std::set_union(all.begin(), all.end(), more.begin(), more.end(), std::back_inserter(both));
    all = std::move(both);
}

Positions common(const Positions & a, const Positions & b) {
    Positions both;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
    return both;
}

Positions at(const Positions & positions, const std::vector<size_t> & indices) {
    Positions some;
    for (size_t index : indices) {
        some.push_back(positions[index]);
    }
    return some;
}

// Of the ranges and regions among the terms.
Positions fixed_positions(const EditSpec & spec, const std::vector<PositionTerm> & terms,
                          const std::vector<Region> & regions, int32_t n_positions) {
    const std::string where = "edit " + in_quotes(spec.text);
    Positions         all;
    for (const PositionTerm & term : terms) {
        if (term.kind == PositionTerm::Kind::range) {
            unite(all, resolve_ranges(where, {{term.first, term.last}}, "position", n_positions));
        } else if (term.kind == PositionTerm::Kind::region) {
            const auto region = std::find_if(regions.begin(), regions.end(),
                                             [&](const Region & known) { return known.name == term.name; });
            if (region == regions.end()) {
                std::string names;
                for (const Region & known : regions) {
                    names += (names.empty() ? "" : ", ") + known.name;
                }
                fail(where, ": there is no region ", in_quotes(term.name), ", the regions are ", printable(names));
            }
            for (const auto & [first, last] : region->spans) {
                unite(all, resolve_ranges(where, {{first, last - 1}}, "position", n_positions));
            }
        }
    }
    return all;
}

} // namespace

class AttentionEditor::Impl {
public:
    Impl(std::vector<EditSpec> specs, const ModelInfo & info, const std::vector<Region> & regions, int32_t n_positions,
         int32_t n_steps)
        : n_head_(static_cast<size_t>(info.n_head)), specs_(std::move(specs)), uses_(specs_.size()) {
        for (const EditSpec & spec : specs_) {
            const std::string where = "edit " + in_quotes(spec.text);
            Plan              plan;
            plan.bias        = spec.bias;
            plan.layers      = resolve_ranges(where, all_if_empty(spec.layers), "layer", info.n_layer);
            plan.heads       = resolve_ranges(where, spec.heads, "head", info.n_head);
            plan.steps       = resolve_ranges(where, all_if_empty(spec.steps), "step", n_steps);
            plan.keys        = fixed_positions(spec, spec.keys, regions, n_positions);
            plan.all_queries = spec.queries.empty();
            plan.queries     = fixed_positions(spec, spec.queries, regions, n_positions);
            for (const PositionTerm & term : spec.keys) {
                if (term.kind == PositionTerm::Kind::sinks) {
                    plan.sinks.push_back(term.epsilon);
                } else if (term.kind == PositionTerm::Kind::anchors) {
                    resolve_ranges(where, {{term.step, term.step}}, "step", n_steps);
                    plan.anchors.push_back({term.epsilon, term.step, {}});
                }
            }
            plans_.push_back(std::move(plan));
        }
    }

    void prepare(int32_t step, ForwardRequest & request) {
        Observer observer;
        now_         = {};
        now_.step    = step;
        now_.queries = positions_of(request);
        now_.n_keys  = now_.queries.empty() ? 0 : now_.queries.back() + 1;
        if (request.kv == KvUse::store) { // what earlier passes stored is there as well
            n_stored_   = std::max(n_stored_, now_.n_keys);
            now_.n_keys = n_stored_;
        }
        for (size_t i = 0; i < plans_.size(); i++) {
            prepare_plan(i, request, observer.probed);
        }
        std::sort(observer.probed.begin(), observer.probed.end());
        observer.probed.erase(std::unique(observer.probed.begin(), observer.probed.end()), observer.probed.end());
        if (!observer.probed.empty()) {
            observer.probe = [this](int32_t layer, const std::vector<int32_t> & positions, const float * received) {
                return probe(layer, positions, received);
            };
            request.observers.push_back(std::move(observer));
        }
    }

    const std::vector<EditSpec> & specs() const { return specs_; }
    const std::vector<EditUse> &  uses() const { return uses_; }

private:
    struct Anchors {
        float                        epsilon;
        int32_t                      step;
        std::map<int32_t, Positions> found; // by layer
    };

    // An edit with everything looked up.
    struct Plan {
        float                bias        = 0.0f;
        bool                 all_queries = true;
        std::vector<int32_t> layers, heads, steps;
        Positions            keys, queries;
        std::vector<float>   sinks; // an epsilon each
        std::vector<Anchors> anchors;
    };

    // The pass that is being made.
    struct Pass {
        int32_t             step   = 0;
        int32_t             n_keys = 0; // positions that may be attended to
        Positions           queries;
        std::vector<size_t> waiting; // plans whose keys are found in it
    };

    static IndexRanges all_if_empty(const IndexRanges & ranges) {
        return ranges.empty() ? IndexRanges{{0, open_end}} : ranges;
    }

    void prepare_plan(size_t index, ForwardRequest & request, std::vector<int32_t> & probed) {
        const Plan & plan = plans_[index];
        if (plan.bias == 0.0f) {
            return;
        }
        for (const Anchors & anchors : plan.anchors) {
            if (anchors.step == now_.step) {
                probed.insert(probed.end(), plan.layers.begin(), plan.layers.end());
            }
        }
        const bool due = std::binary_search(plan.steps.begin(), plan.steps.end(), now_.step) &&
                         (plan.all_queries || !common(plan.queries, now_.queries).empty());
        if (!due) {
            return;
        }
        if (!plan.sinks.empty()) {
            probed.insert(probed.end(), plan.layers.begin(), plan.layers.end());
            now_.waiting.push_back(index);
            return;
        }
        for (int32_t layer : plan.layers) {
            add_edit(index, layer, known_keys(plan, layer), request.edits);
        }
    }

    // Given ones and anchors of earlier steps.
    Positions known_keys(const Plan & plan, int32_t layer) const {
        Positions keys = plan.keys;
        for (const Anchors & anchors : plan.anchors) {
            const auto found = anchors.found.find(layer);
            if (anchors.step < now_.step && found != anchors.found.end()) {
                unite(keys, found->second);
            }
        }
        keys.erase(std::lower_bound(keys.begin(), keys.end(), now_.n_keys), keys.end());
        return keys;
    }

    void add_edit(size_t index, int32_t layer, const Positions & keys, std::vector<AttentionEdit> & edits) {
        if (keys.empty()) {
            return;
        }
        const Plan & plan = plans_[index];
        edits.push_back(
            {layer, plan.heads, plan.all_queries ? Positions() : common(plan.queries, now_.queries), keys, plan.bias});
        uses_[index].n_places++;
        uses_[index].n_keys += static_cast<int64_t>(keys.size());
    }

    std::vector<AttentionEdit> probe(int32_t layer, const std::vector<int32_t> & positions, const float * received) {
        for (Plan & plan : plans_) {
            for (Anchors & anchors : plan.anchors) {
                if (anchors.step == now_.step) {
                    anchors.found[layer] =
                        at(positions, find_sinks(received, n_head_, positions.size(), anchors.epsilon));
                }
            }
        }
        std::vector<AttentionEdit> edits;
        for (size_t index : now_.waiting) {
            const Plan & plan = plans_[index];
            if (!std::binary_search(plan.layers.begin(), plan.layers.end(), layer)) {
                continue;
            }
            Positions keys = known_keys(plan, layer);
            for (float epsilon : plan.sinks) {
                unite(keys, at(positions, find_sinks(received, n_head_, positions.size(), epsilon)));
            }
            add_edit(index, layer, keys, edits);
        }
        return edits;
    }

    size_t                n_head_;
    std::vector<EditSpec> specs_;
    std::vector<EditUse>  uses_;
    std::vector<Plan>     plans_;
    Pass                  now_;
    int32_t               n_stored_ = 0;
};

AttentionEditor::AttentionEditor(std::vector<EditSpec> specs, const ModelInfo & info,
                                 const std::vector<Region> & regions, int32_t n_positions, int32_t n_steps)
    : impl_(std::make_unique<Impl>(std::move(specs), info, regions, n_positions, n_steps)) {}

AttentionEditor::~AttentionEditor() = default;

void AttentionEditor::prepare(int32_t step, ForwardRequest & request) { impl_->prepare(step, request); }

void AttentionEditor::attach(GenerateParams & params) {
    params.on_forward = [this, next = std::move(params.on_forward)](int32_t step, ForwardRequest & request) {
        prepare(step, request);
        if (next) {
            next(step, request);
        }
    };
}

const std::vector<EditSpec> & AttentionEditor::specs() const { return impl_->specs(); }

const std::vector<EditUse> & AttentionEditor::uses() const { return impl_->uses(); }

} // namespace buoy
