#include "special-tokens.h"

#include "buoy/message.h"
#include "io/json-file.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace buoy {

namespace {

using Json = nlohmann::json;
using Ids  = std::unordered_map<std::string, int32_t>;

// What the files know about a special token, in the order of trust.
struct Sources {
    std::optional<HfJson> tokenizer_config;
    std::optional<HfJson> special_tokens_map;
    std::optional<HfJson> generation_config;
    const HfJson &        config;
    const HfJson &        tokenizer;
};

std::string in_dir(const std::string & dir, const char * name) { return (std::filesystem::path(dir) / name).string(); }

void warn(const LogCallback & log, const std::string & message) {
    if (log) {
        log(LogLevel::warn, message);
    }
}

// "<s>" or {"content": "<s>", …}
std::optional<std::string> token_text(const std::optional<HfJson> & file, const std::string & key) {
    const Json * value = file ? file->find({key.c_str()}) : nullptr;
    if (value != nullptr && value->is_object() && value->contains("content")) {
        value = &(*value)["content"];
    }
    if (value == nullptr || !value->is_string()) {
        return std::nullopt;
    }
    return value->get<std::string>();
}

// 2 or [2, 5]; anything else counts as absent.
std::vector<int64_t> token_ids(const HfJson & file, const std::string & key) {
    constexpr size_t ids_max = 64; // models have one to five

    std::vector<int64_t> ids;
    const Json *         value = file.find({key.c_str()});
    if (value == nullptr) {
        return ids;
    }
    for (const Json & id : value->is_array() ? *value : Json::array({*value})) {
        if (id.is_number_integer() && ids.size() < ids_max) {
            ids.push_back(id.get<int64_t>());
        }
    }
    return ids;
}

bool in_vocabulary(int64_t id, const Tokenizer & out) {
    return id >= 0 && id < static_cast<int64_t>(out.tokens.size());
}

std::optional<int32_t> find_by_text(const std::string & kind, const Sources & from, const Ids & ids,
                                    const LogCallback & log) {
    for (const std::optional<HfJson> * file : {&from.tokenizer_config, &from.special_tokens_map}) {
        const std::optional<std::string> text = token_text(*file, kind + "_token");
        if (!text) {
            continue;
        }
        const auto found = ids.find(*text);
        if (found != ids.end()) {
            return found->second;
        }
        warn(log, concat((*file)->path(), ": the ", kind, " token ", in_quotes(*text),
                         " is not in the vocabulary, ignored"));
    }
    return std::nullopt;
}

std::optional<int32_t> find_by_id(const std::string & kind, const Sources & from, const Tokenizer & out,
                                  const LogCallback & log) {
    for (const HfJson * file : {&from.config, from.generation_config ? &*from.generation_config : nullptr}) {
        if (file == nullptr) {
            continue;
        }
        for (const int64_t id : token_ids(*file, kind + "_token_id")) {
            if (in_vocabulary(id, out)) {
                return static_cast<int32_t>(id);
            }
            warn(log, concat(file->path(), ": ", kind, "_token_id ", id, " is outside the vocabulary of ",
                             out.tokens.size(), ", ignored"));
        }
    }
    return std::nullopt;
}

// The model's code masks with the config's id, whatever the tokenizer calls it.
std::optional<int32_t> find_named_mask(const Sources & from, const Tokenizer & out, const Ids & ids,
                                       const LogCallback & log) {
    const std::vector<int64_t> given = token_ids(from.config, "mask_token_id");
    if (!given.empty()) {
        if (!in_vocabulary(given[0], out)) {
            fail(from.config.path(), ": mask_token_id ", given[0], " is outside the vocabulary of ", out.tokens.size());
        }
        return static_cast<int32_t>(given[0]);
    }
    if (const std::optional<int32_t> id = find_by_text("mask", from, ids, log)) {
        return id;
    }
    return find_by_id("mask", from, out, log);
}

std::optional<int32_t> find_unnamed_mask(const Ids & ids) {
    for (const char * text : {"<|mdm_mask|>", "<|mask|>", "<|MASK|>", "|<MASK>|"}) {
        const auto found = ids.find(text);
        if (found != ids.end()) {
            return found->second;
        }
    }
    return std::nullopt;
}

// Ends of generation beyond EOS: GGUF has room for an end of turn and an end of message.
void find_extra_ends(Tokenizer & out, const Sources & from, const Ids & ids) {
    std::set<int32_t> ends;
    for (const HfJson * file : {from.generation_config ? &*from.generation_config : nullptr, &from.config}) {
        if (file == nullptr) {
            continue;
        }
        for (const int64_t id : token_ids(*file, "eos_token_id")) {
            if (in_vocabulary(id, out)) {
                ends.insert(static_cast<int32_t>(id));
            }
        }
    }
    const auto known = [&](const char * text) -> std::optional<int32_t> {
        const auto found = ids.find(text);
        return found != ids.end() && ends.count(found->second) != 0 ? std::optional<int32_t>(found->second)
                                                                    : std::nullopt;
    };
    for (const char * text : {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<turn|>"}) {
        if (const std::optional<int32_t> id = known(text)) {
            out.special_ids.emplace("eot", *id);
        }
    }
    if (const std::optional<int32_t> id = known("<|eom_id|>")) {
        out.special_ids.emplace("eom", *id);
    }
    for (const int32_t id : ends) {
        const bool named = std::any_of(out.special_ids.begin(), out.special_ids.end(), [&](const auto & entry) {
            return entry.second == id && (entry.first == "eos" || entry.first == "eot" || entry.first == "eom");
        });
        if (!named && !out.special_ids.emplace("eot", id).second) {
            out.special_ids.emplace("eom", id);
        }
    }
}

// The id of a special token at the given end of a TemplateProcessing's "single" template.
std::optional<std::string> template_end(const Json & processor, bool first) {
    if (!processor.is_object() || !processor.contains("single") || !processor["single"].is_array() ||
        processor["single"].size() < 2) {
        return std::nullopt;
    }
    const Json & part = first ? processor["single"].front() : processor["single"].back();
    if (!part.is_object() || !part.contains("SpecialToken") || !part["SpecialToken"].is_object() ||
        !part["SpecialToken"].contains("id") || !part["SpecialToken"]["id"].is_string()) {
        return std::nullopt;
    }
    return part["SpecialToken"]["id"].get<std::string>();
}

struct Added {
    std::optional<std::string> first;
    std::optional<std::string> last;
};

Added added_by_post_processor(const HfJson & tokenizer) {
    Added        added;
    const Json * post = tokenizer.find({"post_processor"});
    if (post == nullptr || !post->is_object()) {
        return added;
    }
    const bool   sequence = post->contains("processors") && (*post)["processors"].is_array();
    const Json   single   = Json::array({*post});
    const Json & steps    = sequence ? (*post)["processors"] : single;
    for (const Json & step : steps) {
        if (step.is_object() && step.contains("type") && step["type"] == "TemplateProcessing") {
            added.first = template_end(step, true);
            added.last  = template_end(step, false);
        }
    }
    return added;
}

// tokenizer_config.json's word counts, then the post-processor's. `kind` is bos or eos.
bool is_added(Tokenizer & out, const std::string & kind, const std::optional<std::string> & by_template,
              const Sources & from, const Ids & ids, const LogCallback & log) {
    bool added = false;
    if (by_template && ids.count(*by_template) != 0) {
        out.special_ids.emplace(kind, ids.at(*by_template)); // keeps an id that is already known
        added = out.special_ids.at(kind) == ids.at(*by_template);
        if (!added) {
            warn(log, concat(from.tokenizer.path(), ": the post-processor adds ", in_quotes(*by_template),
                             ", which is not the ", kind, " token, ignored"));
        }
    }
    const std::string key = concat("add_", kind, "_token");
    if (from.tokenizer_config) {
        added = from.tokenizer_config->find_bool({key.c_str()}).value_or(added);
    }
    if (added && out.special_ids.count(kind) == 0) {
        warn(log,
             concat(from.tokenizer_config->path(), ": ", key, " is true, but there is no ", kind, " token, ignored"));
        return false;
    }
    return added;
}

} // namespace

void read_special_tokens(Tokenizer & out, const Ids & ids, const std::string & dir, const HfJson & tokenizer,
                         const HfJson & config, const LogCallback & log) {
    const Sources from = {
        HfJson::load_if_present(in_dir(dir, "tokenizer_config.json")),
        HfJson::load_if_present(in_dir(dir, "special_tokens_map.json")),
        HfJson::load_if_present(in_dir(dir, "generation_config.json")),
        config,
        tokenizer,
    };
    // Hugging Face's word and GGUF's.
    const std::pair<const char *, const char *> kinds[] = {
        {"bos", "bos"}, {"eos", "eos"}, {"unk", "unknown"}, {"sep", "seperator"}, {"pad", "padding"}};
    for (const auto & [kind, key] : kinds) {
        std::optional<int32_t> id = find_by_text(kind, from, ids, log);
        if (!id) {
            id = find_by_id(kind, from, out, log);
        }
        if (id) {
            out.special_ids[key] = *id;
        }
    }
    const std::optional<int32_t> named = find_named_mask(from, out, ids, log);
    out.mask_named                     = named.has_value();
    if (const std::optional<int32_t> mask = named ? named : find_unnamed_mask(ids)) {
        out.special_ids["mask"] = *mask;
    }
    find_extra_ends(out, from, ids);
    const Added added = added_by_post_processor(tokenizer);
    out.add_bos       = is_added(out, "bos", added.first, from, ids, log);
    if (out.pre.kind == TokenizerKind::whole_text) {
        out.add_bos = true; // Gemma 4 needs it; libllama adds it whatever the file says
    }
    out.add_eos = is_added(out, "eos", added.last, from, ids, log);
}

void read_chat_template(Tokenizer & out, const std::string & dir) {
    std::error_code error;
    for (const char * name : {"tokenizer_config.json", "chat_template.json"}) {
        const std::optional<HfJson> file  = HfJson::load_if_present(in_dir(dir, name));
        const Json *                value = file ? file->find({"chat_template"}) : nullptr;
        if (value != nullptr && value->is_string()) {
            out.chat_template = value->get<std::string>();
        } else if (value != nullptr && value->is_array()) {
            for (const Json & entry : *value) {
                const HfJson part(file->path(), entry.is_object() ? entry : Json::object());
                const auto   title = part.find_string({"name"});
                const auto   body  = part.find_string({"template"});
                if (!title || !body) {
                    fail(file->path(), ": an entry of 'chat_template' has no name or template");
                }
                if (*title == "default") {
                    out.chat_template = body;
                } else {
                    out.chat_templates_named[*title] = *body;
                }
            }
        }
        const std::string jinja = in_dir(dir, "chat_template.jinja");
        if (!out.chat_template && std::filesystem::exists(jinja, error)) {
            out.chat_template = load_text(jinja);
        }
        if (out.chat_template) {
            return;
        }
    }
}

} // namespace buoy
