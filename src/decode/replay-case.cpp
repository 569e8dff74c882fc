// Published cases: which parameters a sampler's settings are. A sampler is a row of the table at the end.

#include "buoy/replay-case.h"

#include "buoy/frequency-table.h"
#include "buoy/message.h"
#include "io/json-file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <set>

namespace buoy {

namespace {

using Json = nlohmann::json;

// The settings of a case while they are turned into parameters; those that nobody reads are an error.
class CaseSettings {
public:
    CaseSettings(std::string where, std::string folder, const Json & json, size_t n_prompt)
        : where_(std::move(where)), folder_(std::move(folder)), json_(json), n_prompt_(static_cast<int32_t>(n_prompt)) {
    }

    int32_t             n_prompt() const { return n_prompt_; }
    const std::string & folder() const { return folder_; } // of the file

    bool has(const char * name) const { return json_.contains(name) && !json_[name].is_null(); }

    template <typename T> T get(const char * name) {
        if (!has(name)) {
            fail(where_, ": setting ", name, " is missing");
        }
        return value<T>(name);
    }
    template <typename T> T get(const char * name, T otherwise) {
        read_.insert(name);
        return has(name) ? value<T>(name) : otherwise;
    }

    // Those that have the same name here, in the table of the methods' constants.
    void apply_rest(GenerateParams & params) {
        for (const auto & [name, value] : json_.items()) {
            if (read_.count(name) == 0) {
                apply_setting(params, name, text_of(value));
            }
        }
    }

private:
    template <typename T> T value(const char * name) {
        read_.insert(name);
        try {
            return json_[name].get<T>();
        } catch (const Json::exception &) {
            fail(where_, ": setting ", name, " is ", in_quotes(json_[name].dump()), ", which is of another type");
        }
    }

    static std::string text_of(const Json & value) {
        if (value.is_string()) {
            return value.get<std::string>();
        }
        if (value.is_array()) {
            std::string list;
            for (const Json & part : value) {
                list += (list.empty() ? "" : ",") + part.dump();
            }
            return list;
        }
        return value.is_null() ? "none" : value.dump();
    }

    std::string           where_;
    std::string           folder_;
    const Json &          json_;
    int32_t               n_prompt_;
    std::set<std::string> read_;
};

// Greedy at temperature 1 is argmax.
void read_temperature(CaseSettings & s, GenerateParams & params) {
    params.temperature = s.get<float>("temperature", 0.0f);
    params.greedy      = s.get<bool>("greedy", false);
    if (params.greedy && params.temperature == 1.0f) {
        params.temperature = 0.0f;
        params.greedy      = false;
    }
}

void read_length(CaseSettings & s, GenerateParams & params) {
    params.n_predict = s.has("gen_length") ? s.get<int32_t>("gen_length") : s.get<int32_t>("max_new_tokens");
}

void read_plain(CaseSettings & s, GenerateParams & params) {
    read_length(s, params);
    if (s.get<std::string>("remasking", "low_confidence") == "random") {
        params.algorithm = Algorithm::random;
    }
}

void read_cache(CaseSettings & s, GenerateParams & params) {
    const auto cache = s.get<std::string>("cache", "none");
    params.cache     = cache == "prefix" ? DiffusionCache::prefix
                       : cache == "dual" ? DiffusionCache::dual
                                         : DiffusionCache::none;
}

void read_fast_dllm(CaseSettings & s, GenerateParams & params) {
    read_plain(s, params);
    read_cache(s, params);
}

void read_margin(CaseSettings & s, GenerateParams & params) {
    read_plain(s, params);
    params.algorithm = Algorithm::margin;
}

void read_entropy(CaseSettings & s, GenerateParams & params) {
    read_plain(s, params);
    params.algorithm = Algorithm::entropy;
}

void read_eb(CaseSettings & s, GenerateParams & params) {
    read_plain(s, params);
    params.algorithm = Algorithm::eb;
    params.eb_gamma  = s.get<float>("gamma");
}

void read_pc(CaseSettings & s, GenerateParams & params) {
    read_plain(s, params);
    params.algorithm = Algorithm::pc;
    params.pc_lambda = s.get<float>("lambda");
    params.pc_alpha  = s.get<float>("alpha");
    params.pc_table  = load_frequency_table(s.folder() + "/pc_baseline.json"); // beside the case
}

void read_pc_linear(CaseSettings & s, GenerateParams & params) {
    read_pc(s, params);
    params.algorithm = Algorithm::pc_linear;
}

void read_dream(CaseSettings & s, GenerateParams & params) {
    read_length(s, params);
    const auto alg   = s.get<std::string>("alg");
    params.eps       = s.get<float>("eps", 1e-3f);
    params.algorithm = alg == "topk_margin" ? Algorithm::margin
                       : alg == "entropy"   ? Algorithm::entropy
                       : alg == "origin"    ? Algorithm::origin
                                            : Algorithm::confidence;
}

void read_dream_block(CaseSettings & s, GenerateParams & params) {
    read_dream(s, params);
    read_cache(s, params);
}

void read_rnd1(CaseSettings & s, GenerateParams & params) {
    read_length(s, params);
    params.steps = s.get<int32_t>("num_steps");
    s.get<int32_t>("eos_id", -1);
    s.get<int32_t>("pad_id", -1); // the file names it
    if (s.has("eb_gamma")) {
        params.algorithm = Algorithm::eb;
        params.eb_gamma  = s.get<float>("eb_gamma");
        params.steps     = 0;
    }
}

// The answer ends with a whole block.
void read_sdar(CaseSettings & s, GenerateParams & params) {
    read_length(s, params);
    params.block_length    = s.get<int32_t>("block_length");
    params.steps_per_block = s.get<int32_t>("denoising_steps");
    const int32_t B        = std::max(params.block_length, 1);
    params.n_predict       = (s.n_prompt() + params.n_predict + B - 1) / B * B - s.n_prompt();
    if (s.has("confidence_threshold")) {
        params.threshold = s.get<float>("confidence_threshold");
    }
    if (s.get<std::string>("remasking_strategy", "") == "sequential") {
        params.algorithm = Algorithm::sequential;
    }
}

void read_llada2(CaseSettings & s, GenerateParams & params) {
    read_length(s, params);
    params.steps_per_block = s.get<int32_t>("steps");
    s.get<int32_t>("eos_id", -1);
    if (s.has("editing_threshold")) {
        params.edit_threshold = s.get<float>("editing_threshold");
        params.post_steps     = s.get<int32_t>("max_post_steps");
    }
}

// As many whole blocks as the tokens asked for fill, from the beginning of the block in which the prompt ends, and the next one's first.
void read_fast_dllm_v2(CaseSettings & s, GenerateParams & params) {
    read_length(s, params);
    params.block_length     = s.get<int32_t>("block_size");
    params.sub_block_length = s.get<int32_t>("small_block_size");
    params.cache            = s.get<bool>("use_block_cache", false) ? DiffusionCache::dual : DiffusionCache::prefix;
    const int32_t B         = std::max(params.block_length, 1);
    params.n_predict        = (s.n_prompt() / B + params.n_predict / B) * B + 1 - s.n_prompt();
    s.get<int32_t>("eos_id", -1);
}

// Methods of whose constants every one has the same name here.
template <Algorithm algorithm> void read_method(CaseSettings & s, GenerateParams & params) {
    read_length(s, params);
    params.algorithm = algorithm;
}

// As long as is asked for, with blocks of which the first and the last may be short.
void read_stable_diffcoder(CaseSettings & s, GenerateParams & params) {
    read_length(s, params);
    params.end_ids = {s.get<int32_t>("eos_id")};
}

// SGLang's algorithms: the answer ends with a whole block.
template <Algorithm algorithm> void read_serving(CaseSettings & s, GenerateParams & params) {
    read_length(s, params);
    const int32_t B     = std::max(s.get<int32_t>("block_size"), 1);
    params.block_length = B;
    params.n_predict    = (s.n_prompt() + params.n_predict + B - 1) / B * B - s.n_prompt();
    params.algorithm    = algorithm;
    params.post_steps   = s.get<int32_t>("max_post_edit_steps", params.post_steps);
    if (s.has("edit_threshold")) {
        params.edit_threshold = s.get<float>("edit_threshold");
    }
}

void read_nemotron(CaseSettings & s, GenerateParams & params) {
    read_length(s, params);
    params.end_ids = {s.get<int32_t>("eos_token_id")};
}

void read_nemotron_spec(CaseSettings & s, GenerateParams & params) {
    read_nemotron(s, params);
    params.speculate = true;
}

void read_diffusion_gemma(CaseSettings & s, GenerateParams & params) {
    read_length(s, params);
    const Json ends = s.get<Json>("eos_token_id", Json::array()); // a token or several
    params.end_ids  = ends.is_array() ? ends.get<std::vector<int32_t>>() : std::vector<int32_t>{ends.get<int32_t>()};
}

void read_daedal(CaseSettings & s, GenerateParams & params) {
    params.auto_length = true;
    params.n_predict   = s.get<int32_t>("max_gen_length");
}

template <DiffusionCache cache> void read_adaptive(CaseSettings & s, GenerateParams & params) {
    read_length(s, params);
    params.cache = cache;
}

struct Sampler {
    const char * name;
    void (*read)(CaseSettings & settings, GenerateParams & params);
    std::optional<ModelMode> mode = std::nullopt;
};

const Sampler samplers[] = {
    {"llada", read_plain},
    {"fast_dllm", read_fast_dllm},
    {"fast_dllm_prefix", read_fast_dllm},
    {"fast_dllm_dual", read_fast_dllm},
    {"fast_dllm_factor", read_fast_dllm},
    {"pc_sampler", read_pc},
    {"linear_position", read_pc_linear},
    {"margin", read_margin},
    {"entropy", read_entropy},
    {"eb_sampler", read_eb},
    {"dream", read_dream},
    {"dream_block", read_dream_block},
    {"rnd1", read_rnd1},
    {"sdar_block", read_sdar},
    {"llada2_block", read_llada2},
    {"llada21_block", read_llada2},
    {"fast_dllm_v2", read_fast_dllm_v2},
    {"stable_diffcoder_block", read_stable_diffcoder},
    {"sglang_low_confidence", read_serving<Algorithm::low_confidence>},
    {"sglang_joint_threshold", read_serving<Algorithm::joint_threshold>},
    {"sglang_joint_threshold_indel", read_serving<Algorithm::joint_threshold_indel>},
    {"nemotron_ar", read_nemotron, ModelMode::ar},
    {"nemotron_diffusion", read_nemotron, ModelMode::diffusion},
    {"nemotron_linear_spec", read_nemotron_spec, ModelMode::diffusion},
    {"diffusion_gemma_eb", read_diffusion_gemma},
    {"greedy", read_length},
    {"d2cache", read_adaptive<DiffusionCache::d2>},
    {"elastic", read_adaptive<DiffusionCache::elastic>},
    {"dllm_cache", read_adaptive<DiffusionCache::dllm>},
    {"daedal", read_daedal},
    {"localleap", read_method<Algorithm::localleap>},
    {"klass", read_method<Algorithm::klass>},
    {"dawn", read_method<Algorithm::dawn>},
    {"wino", read_method<Algorithm::wino>},
};

const Sampler & find_sampler(const std::string & where, const std::string & name) {
    std::string known;
    for (const Sampler & sampler : samplers) {
        if (name == sampler.name) {
            return sampler;
        }
        known += (known.empty() ? "" : ", ") + std::string(sampler.name);
    }
    fail(where, ": unknown sampler ", in_quotes(name), "; known are ", known);
}

// A step without any has an empty entry, so that they count like steps.
std::vector<RecordedDraws> read_draws(const Json & steps) {
    std::vector<RecordedDraws> draws;
    bool                       any = false;
    for (const Json & step : steps) {
        RecordedDraws & draw = draws.emplace_back();
        draw.canvas          = step.value("canvas_in", draw.canvas);
        draw.ids             = step.value("random_ids", draw.ids);
        draw.uniform         = step.value("u", draw.uniform);
        any                  = any || !draw.ids.empty() || !draw.uniform.empty();
    }
    return any ? draws : std::vector<RecordedDraws>();
}

const Json & find_case(const Json & file, const std::string & path, const std::string & id) {
    if (!file.is_object() || !file.contains("cases") || !file["cases"].is_array()) {
        fail(printable(path), ": no cases there, expected {\"cases\": [{\"id\", \"sampler\", \"settings\", …}]}");
    }
    std::string known;
    for (const Json & c : file["cases"]) {
        const std::string found =
            c.is_object() && c.contains("id") && c["id"].is_string() ? c["id"].get<std::string>() : "";
        if (found == id) {
            return c;
        }
        known += (known.empty() ? "" : ", ") + printable(found, 96);
    }
    fail(printable(path), ": there is no case ", in_quotes(id), "; those there are: ", known);
}

} // namespace

ReplayCase load_case(const std::string & path, const std::string & id) {
    const Json        file  = load_json(path);
    const Json &      found = find_case(file, path, id);
    const std::string where = concat(printable(path), ": case ", in_quotes(id));
    ReplayCase        replay;
    try {
        replay.id           = id;
        replay.sampler      = found.at("sampler").get<std::string>();
        replay.prompt       = found.at("prompt_ids").get<std::vector<int32_t>>();
        replay.params.draws = found.contains("steps") ? read_draws(found["steps"]) : replay.params.draws;
        const Json & json   = found.at("settings");
        const auto   folder = std::filesystem::path(path).parent_path().string();
        CaseSettings settings(where, folder.empty() ? "." : folder, json, replay.prompt.size());
        for (const char * name : {"mask_id", "mask_token_id"}) {
            const auto mask_id = settings.get<int32_t>(name, -1);
            replay.mask_id     = mask_id >= 0 ? mask_id : replay.mask_id;
        }
        read_temperature(settings, replay.params);
        const Sampler & sampler = find_sampler(where, replay.sampler);
        sampler.read(settings, replay.params);
        replay.mode = sampler.mode;
        settings.apply_rest(replay.params);
    } catch (const Json::exception & error) {
        fail(where, ": ", printable(error.what(), 200));
    } catch (const Error & error) {
        const std::string message = error.what();
        fail(message.rfind(where, 0) == 0 ? "" : where + ": ", message);
    }
    return replay;
}

ReplayCase load_case(const std::string & place) {
    const std::string ending = ".json:";
    const size_t      json   = place.find(ending);
    const size_t      colon  = json != std::string::npos ? json + ending.size() - 1 : place.rfind(':');
    if (colon == std::string::npos) {
        fail(in_quotes(place), " is not FILE.json:ID");
    }
    return load_case(place.substr(0, colon), place.substr(colon + 1));
}

} // namespace buoy
