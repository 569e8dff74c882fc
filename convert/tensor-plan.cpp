#include "tensor-plan.h"

#include "buoy/error.h"
#include "io/printable.h"

#include <algorithm>
#include <cmath>
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

ggml_type target_type(OutType outtype) {
    switch (outtype) {
        case OutType::f32: return GGML_TYPE_F32;
        case OutType::f16: return GGML_TYPE_F16;
        case OutType::bf16: return GGML_TYPE_BF16;
        case OutType::q8_0: return GGML_TYPE_Q8_0;
    }
    fail("unknown output type");
}

class Planner {
public:
    Planner(const ArchMapping & mapping, const HfParams & params, const Safetensors & source, OutType outtype,
            const LogCallback & log)
        : mapping_(mapping), params_(params), source_(source), type_(target_type(outtype)), log_(log) {}

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
        plan_rope_factors();
        return std::move(plan_);
    }

private:
    int64_t size_of(Dim dim) const {
        switch (dim) {
            case Dim::none: return 1;
            case Dim::vocab: return params_.n_vocab;
            case Dim::embd: return params_.n_embd;
            case Dim::ff: return params_.n_ff;
            case Dim::q: return params_.n_head * params_.head_dim;
            case Dim::kv: return params_.n_head_kv * params_.head_dim;
            case Dim::head: return params_.head_dim;
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

    void add(const SafetensorsTensor & tensor, const std::string & target, const TensorRule & rule) {
        std::vector<int64_t> expected = {size_of(rule.rows)};
        if (rule.cols != Dim::none) {
            expected.push_back(size_of(rule.cols));
        }
        if (tensor.shape != expected) {
            fail(path_of(tensor), ": tensor ", in_quotes(tensor.name), " has shape ", shape_text(tensor.shape),
                 ", the config makes it ", shape_text(expected));
        }
        if (tensor.dtype != "F32" && tensor.dtype != "F16" && tensor.dtype != "BF16") {
            fail(path_of(tensor), ": tensor ", in_quotes(tensor.name), " is ", tensor.dtype,
                 ", expected F32, F16 or BF16");
        }
        used_.insert(tensor.name);

        PlannedTensor planned;
        planned.name    = target;
        planned.source  = &tensor;
        planned.n_dims  = rule.cols == Dim::none ? 1 : 2;
        planned.n_rows  = expected[0];
        planned.n_cols  = planned.n_dims == 1 ? 1 : expected[1];
        planned.n_group = rule.reorder == Reorder::none ? 0 : params_.head_dim;
        planned.type    = planned.n_dims == 1 ? GGML_TYPE_F32 : matrix_type(tensor, planned.n_cols);
        plan_.push_back(std::move(planned));
    }

    // Norms and biases stay F32, as upstream keeps them; a row that does not fill whole blocks falls back to F16.
    ggml_type matrix_type(const SafetensorsTensor & tensor, int64_t n_cols) const {
        if (n_cols % ggml_blck_size(type_) == 0) {
            return type_;
        }
        warn(concat("tensor ", in_quotes(tensor.name), ": rows of ", n_cols, " do not fill blocks of ",
                    ggml_blck_size(type_), ", kept as f16"));
        return GGML_TYPE_F16;
    }

    void plan_rule(const TensorRule & rule, int64_t layer) {
        const std::string         name   = with_layer(rule.source, layer);
        const SafetensorsTensor * tensor = find_source(source_, name);
        if (tensor != nullptr) {
            add(*tensor, with_layer(rule.target, layer), rule);
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
                                                          ".attention.bias"};

        std::vector<std::string> extra;
        for (const SafetensorsTensor & tensor : source_.tensors()) {
            const std::string & name      = tensor.name;
            const auto          ends_with = [&](const std::string & suffix) {
                return name.size() >= suffix.size() &&
                       name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
            };
            if (used_.count(name) != 0 || std::any_of(harmless.begin(), harmless.end(), ends_with)) {
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

    // Llama 3's scaling as one divisor per frequency: long waves are slowed by the factor, short ones are kept, and in
    // between the two blend (rope type "llama3" of Hugging Face).
    void plan_rope_factors() {
        const RopeScaling & rope = params_.rope;
        if (rope.kind != RopeKind::llama3) {
            return;
        }
        PlannedTensor planned;
        planned.name   = "rope_freqs.weight";
        planned.n_dims = 1;
        planned.n_rows = params_.head_dim / 2;

        const double n_ctx = static_cast<double>(rope.n_ctx_original);
        for (int64_t i = 0; i < planned.n_rows; ++i) {
            const double exponent = static_cast<double>(2 * i) / static_cast<double>(params_.head_dim);
            const double wave     = 2 * M_PI * std::pow(params_.rope_base, exponent);
            const double blend = (n_ctx / wave - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
            const double kept  = std::clamp(blend, 0.0, 1.0);
            planned.values.push_back(static_cast<float>(1 / ((1 - kept) / rope.factor + kept)));
        }
        plan_.push_back(std::move(planned));
    }

    const ArchMapping &        mapping_;
    const HfParams &           params_;
    const Safetensors &        source_;
    ggml_type                  type_;
    const LogCallback &        log_;
    std::vector<PlannedTensor> plan_;
    std::vector<std::string>   missing_;
    std::set<std::string>      used_;
};

} // namespace

std::vector<PlannedTensor> plan_tensors(const ArchMapping & mapping, const HfParams & params,
                                        const Safetensors & source, OutType outtype, const LogCallback & log) {
    return Planner(mapping, params, source, outtype, log).run();
}

} // namespace buoy
