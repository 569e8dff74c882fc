#include "tensor-plan.h"

#include "buoy/message.h"
#include "fp8-scales.h"
#include "rope-factors.h"

#include <algorithm>
#include <optional>
#include <set>

namespace buoy {

namespace {

constexpr size_t LISTED_MAX = 12; // names shown when many are missing

std::string with_layer(const char * pattern, int64_t layer) {
    std::string  name  = pattern;
    const size_t brace = name.find("{}");
    if (brace != std::string::npos) {
        name.replace(brace, 2, std::to_string(layer));
    }
    return name;
}

std::string with_expert(std::string name, int64_t expert) {
    return name.replace(name.find("{x}"), 3, std::to_string(expert));
}

bool is_per_layer(const TensorRule & rule) { return std::string(rule.source).find("{}") != std::string::npos; }

std::string listed(const std::vector<std::string> & names) {
    std::string out;
    for (size_t i = 0; i < names.size() && i < LISTED_MAX; ++i) {
        out += concat(i == 0 ? "" : ", ", printable(names[i], 120));
    }
    return names.size() > LISTED_MAX ? concat(out, " and ", names.size() - LISTED_MAX, " more") : out;
}

std::string shape_text(const std::vector<int64_t> & shape) {
    std::string out = "[";
    for (size_t i = 0; i < shape.size(); ++i) {
        out += concat(i == 0 ? "" : ", ", shape[i]);
    }
    return out + "]";
}

// Base models are saved without the leading "model.".
const SafetensorsTensor * find_source(const Safetensors & source, const std::string & name) {
    const SafetensorsTensor * tensor = source.find(name);
    if (tensor == nullptr && name.compare(0, 6, "model.") == 0) {
        tensor = source.find(name.substr(6));
    }
    return tensor;
}

ggml_type plain_type(const std::string & dtype) {
    return dtype == "F32" ? GGML_TYPE_F32 : dtype == "F16" ? GGML_TYPE_F16 : GGML_TYPE_BF16;
}

class Planner {
public:
    Planner(const ArchMapping & mapping, const HfParams & params, const HfJson & config, const Safetensors & source,
            const LogCallback & log)
        : mapping_(mapping), params_(params), config_(config), source_(source), log_(log) {}

    std::vector<PlannedTensor> run() {
        plan_embedding_and_head();
        for (const TensorRule & rule : mapping_.tensors) {
            if (!is_per_layer(rule)) {
                plan_rule(rule, 0);
            }
        }
        for (int64_t layer = 0; layer < params_.n_layer; ++layer) {
            for (const TensorRule & rule : mapping_.tensors) {
                if (is_per_layer(rule)) {
                    plan_rule(rule, layer);
                }
            }
        }
        if (!missing_.empty()) {
            fail(source_.paths().front(), ": ", missing_.size(), " tensors of architecture ", mapping_.arch,
                 " are missing: ", listed(missing_));
        }
        report_extra();
        if (std::optional<PlannedTensor> factors = plan_rope_factors(params_)) {
            plan_.push_back(*std::move(factors));
        }
        return std::move(plan_);
    }

private:
    int64_t size_of(Dim dim, int64_t layer) const {
        const int64_t head_dim  = params_.layer_head_dim(layer);
        const int64_t n_head_kv = params_.layer_n_head_kv(layer);
        switch (dim) {
            case Dim::none:
            case Dim::one: return 1;
            case Dim::vocab: return params_.n_vocab;
            case Dim::embd: return params_.n_embd;
            case Dim::ff: return params_.n_ff;
            case Dim::q: return params_.n_head * head_dim;
            case Dim::kv: return n_head_kv * head_dim;
            case Dim::qkv: return (params_.n_head + 2 * n_head_kv) * head_dim;
            case Dim::head: return head_dim;
            case Dim::expert: return params_.moe.n_expert;
            case Dim::ff_expert: return params_.moe.n_ff;
            case Dim::ff_expert_pair: return 2 * params_.moe.n_ff;
            case Dim::ff_shared: return params_.moe.n_ff_shared * params_.moe.n_shared;
        }
        return 0;
    }

    void warn(const std::string & message) const {
        if (log_) {
            log_(LogLevel::warn, message);
        }
    }

    const std::string & path_of(const SafetensorsTensor & tensor) const {
        return source_.paths()[static_cast<size_t>(tensor.file)];
    }

    // The shape that the rule gives the tensor, which must be the checkpoint's.
    std::vector<int64_t> checked_shape(const SafetensorsTensor & tensor, const TensorRule & rule, int64_t layer) {
        std::vector<int64_t> expected = {size_of(rule.rows, layer)};
        if (rule.cols != Dim::none) {
            expected.push_back(size_of(rule.cols, layer));
        }
        if (rule.stacked) {
            expected.insert(expected.begin(), size_of(Dim::expert, layer));
        }
        if (tensor.shape != expected) {
            fail(path_of(tensor), ": tensor ", in_quotes(tensor.name), " has shape ", shape_text(tensor.shape),
                 ", the config makes it ", shape_text(expected));
        }
        used_.insert(tensor.name);
        return expected;
    }

    TensorSource source_of(const SafetensorsTensor & tensor) {
        TensorSource out;
        out.name   = tensor.name;
        out.file   = source_.file(tensor.file);
        out.offset = tensor.offset;
        if (tensor.dtype == "F8_E4M3") {
            const FoundScales found = find_fp8_scales(tensor, source_, config_);
            used_.insert(found.tensor->name);
            out.scales = found.scales;
        } else if (tensor.dtype == "F32" || tensor.dtype == "F16" || tensor.dtype == "BF16") {
            out.type = plain_type(tensor.dtype);
        } else {
            fail(path_of(tensor), ": tensor ", in_quotes(tensor.name), " is ", tensor.dtype,
                 ", expected F32, F16, BF16 or F8_E4M3");
        }
        return out;
    }

    void add(const SafetensorsTensor & tensor, const std::string & target, const TensorRule & rule, int64_t layer = 0) {
        const std::vector<int64_t> expected = checked_shape(tensor, rule, layer);

        PlannedTensor planned;
        planned.name    = target;
        planned.parts   = {source_of(tensor)};
        planned.n_dims  = static_cast<int>(expected.size());
        planned.n_last  = rule.stacked ? expected[0] : 1;
        planned.n_cols  = planned.n_dims == 1 ? 1 : expected.back();
        planned.n_rows  = rule.stacked ? expected[0] * expected[1] : expected[0];
        planned.n_group = rule.reorder == Reorder::none ? 0 : params_.layer_head_dim(layer);
        plan_.push_back(std::move(planned)); // as F32 until a mix says otherwise
    }

    void add_experts(const TensorRule & rule, int64_t layer) {
        PlannedTensor planned;
        for (int64_t x = 0; x < params_.moe.n_expert; ++x) {
            const std::string         name   = with_expert(with_layer(rule.source, layer), x);
            const SafetensorsTensor * tensor = find_source(source_, name);
            if (tensor == nullptr) {
                missing_.push_back(name);
                continue;
            }
            const std::vector<int64_t> shape = checked_shape(*tensor, rule, layer);
            planned.n_cols                   = shape[1];
            planned.n_rows += shape[0];
            planned.parts.push_back(source_of(*tensor));
            const TensorSource & first = planned.parts.front();
            const TensorSource & last  = planned.parts.back();
            if (first.type != last.type || (first.scales == nullptr) != (last.scales == nullptr)) {
                fail(path_of(*tensor), ": tensor ", in_quotes(tensor->name), " is ", tensor->dtype,
                     ", the first expert's type is another");
            }
        }
        if (!planned.parts.empty()) {
            planned.name   = with_layer(rule.target, layer);
            planned.n_dims = 3;
            planned.n_last = static_cast<int64_t>(planned.parts.size());
            plan_.push_back(std::move(planned));
        }
    }

    bool applies(const TensorRule & rule, int64_t layer) const {
        switch (rule.layers) {
            case Layers::all: return true;
            case Layers::dense: return params_.moe.is_dense(layer);
            case Layers::sparse: return !params_.moe.is_dense(layer);
            case Layers::sliding: return params_.is_sliding(layer);
            case Layers::global: return params_.is_global(layer);
        }
        return false;
    }

    void plan_rule(const TensorRule & rule, int64_t layer) {
        if (!applies(rule, layer)) {
            return;
        }
        if (std::string(rule.source).find("{x}") != std::string::npos) {
            add_experts(rule, layer);
            return;
        }
        const std::string         name   = with_layer(rule.source, layer);
        const SafetensorsTensor * tensor = find_source(source_, name);
        if (tensor != nullptr && rule.need == Need::refused) {
            fail(path_of(*tensor), ": tensor ", in_quotes(tensor->name), " has no place in architecture ",
                 mapping_.arch);
        }
        if (tensor != nullptr) {
            add(*tensor, with_layer(rule.target, layer), rule, layer);
        } else if (rule.need == Need::required) {
            missing_.push_back(name);
        }
    }

    // Tied weights are written once, as token_embd; readers take it for the head when there is no output.
    void plan_embedding_and_head() {
        const SafetensorsTensor * embedding = find_source(source_, mapping_.embedding);
        const SafetensorsTensor * head      = find_source(source_, mapping_.head);
        const bool                tied      = params_.tied.value_or(embedding == nullptr || head == nullptr);

        const TensorRule rule = {"", "", Dim::vocab, Dim::embd};
        if (tied && embedding == nullptr && head == nullptr) {
            missing_.push_back(mapping_.embedding);
        } else if (tied) {
            add(embedding != nullptr ? *embedding : *head, "token_embd.weight", rule);
            if (embedding != nullptr && head != nullptr) {
                used_.insert(head->name);
                if (!equal(*embedding, *head)) {
                    warn(concat("tensor ", in_quotes(head->name), " differs from ", in_quotes(embedding->name),
                                ", but the config ties them; the embedding is used for both"));
                }
            }
        } else {
            for (const auto & [tensor, name, target] :
                 {std::make_tuple(embedding, mapping_.embedding, "token_embd.weight"),
                  std::make_tuple(head, mapping_.head, "output.weight")}) {
                if (tensor != nullptr) {
                    add(*tensor, target, rule);
                } else {
                    missing_.push_back(name);
                }
            }
        }
    }

    bool equal(const SafetensorsTensor & a, const SafetensorsTensor & b) const {
        if (a.dtype != b.dtype || a.shape != b.shape) {
            return false;
        }
        constexpr uint64_t step = 1 << 20;
        std::vector<char>  left(step);
        std::vector<char>  right(step);
        for (uint64_t at = 0; at < a.size; at += step) {
            const size_t size = static_cast<size_t>(std::min(step, a.size - at));
            source_.read(a, at, left.data(), size);
            source_.read(b, at, right.data(), size);
            if (!std::equal(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(size), right.begin())) {
                return false;
            }
        }
        return true;
    }

    // A bias that nobody adds would change the model; anything else that is left over is only worth a word.
    void report_extra() {
        static const std::vector<std::string> harmless = {".rotary_emb.inv_freq", ".attention.masked_bias",
                                                          ".attention.bias", ".input_scale", ".activation_scale"};

        const auto is_skipped = [&](const std::string & name) {
            return std::any_of(mapping_.skipped.begin(), mapping_.skipped.end(), [&](const std::string & prefix) {
                return name.rfind(prefix, 0) == 0 || name.rfind("model." + prefix, 0) == 0;
            });
        };
        std::vector<std::string> extra;
        for (const SafetensorsTensor & tensor : source_.tensors()) {
            const std::string & name      = tensor.name;
            const auto          ends_with = [&](const std::string & suffix) {
                return name.size() >= suffix.size() &&
                       name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
            };
            if (used_.count(name) != 0 || is_skipped(name) ||
                std::any_of(harmless.begin(), harmless.end(), ends_with)) {
                continue;
            }
            if (ends_with(".bias") && used_.count(name.substr(0, name.size() - 4) + "weight") != 0) {
                fail(path_of(tensor), ": tensor ", in_quotes(name), " has no place in architecture ", mapping_.arch);
            }
            extra.push_back(name);
        }
        if (!extra.empty()) {
            warn(concat(extra.size(), " tensors have no place in architecture ", mapping_.arch,
                        " and are left out: ", listed(extra)));
        }
    }

    const ArchMapping &        mapping_;
    const HfParams &           params_;
    const HfJson &             config_;
    const Safetensors &        source_;
    const LogCallback &        log_;
    std::vector<PlannedTensor> plan_;
    std::vector<std::string>   missing_;
    std::set<std::string>      used_;
};

} // namespace

std::vector<PlannedTensor> plan_tensors(const ArchMapping & mapping, const HfParams & params, const HfJson & config,
                                        const Safetensors & source, const LogCallback & log) {
    return Planner(mapping, params, config, source, log).run();
}

} // namespace buoy
