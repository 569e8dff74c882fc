#include "pre-tokenizer.h"

#include "buoy/message.h"

#include <vector>

namespace buoy {

namespace {

using Json = nlohmann::json;

// The steps of a pre-tokenizer, one string each: a regular expression, or a step's name in brackets.
using Steps = std::vector<std::string>;

struct KnownPre {
    const char * name; // what libllama calls these rules
    bool         ignore_merges;
    Steps        steps;
    bool         either = false; // ignoring merges or not, if that makes no difference for the vocabulary
};

// libllama turns these names back into the same rules (and into ignore_merges).
const std::vector<KnownPre> & known_pres() {
    static const std::string words  = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+)";
    static const std::string marks  = R"( ?[^\s\p{L}\p{N}]+[\r\n]*)";
    static const std::string spaces = R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

    static const std::string llama3 = words + R"(|\p{N}{1,3}|)" + marks + "|" + spaces;
    static const std::string qwen2  = words + R"(|\p{N}|)" + marks + "|" + spaces;
    static const std::string qwen35 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+)"
                                      R"(|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" +
                                      spaces;
    static const std::string bailing  = R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}|)"
                                        R"( ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
    static const std::string deepseek = R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|)"
                                        R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)" +
                                        spaces;

    static const std::string seed = words + R"(|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|)" + spaces;

    // capitals and what has no case, then small letters, or the other way round
    static const std::string large  = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])";
    static const std::string small  = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";
    static const std::string before = R"([^\r\n\p{L}\p{N}]?)";
    static const std::string tekken = before + large + "*" + small + "+|" + before + large + "+" + small +
                                      R"(*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" + spaces;

    static const std::vector<KnownPre> known = {
        {"llama-bpe", true, {llama3, "[bytes]"}},
        {"smaug-bpe", false, {llama3, "[bytes]"}},
        {"qwen2", false, {qwen2, "[bytes]"}},
        {"qwen35", false, {qwen35, "[bytes]"}},
        {"llada-moe", false, {bailing, "[bytes]"}},
        {"deepseek-v3", false, {R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+", deepseek, "[bytes]"}},
        {"seed-coder", false, {seed, "[bytes]"}},
        {"tekken", true, {tekken, "[bytes]"}, true},
        {"gpt-2", false, {"[gpt2-bytes]"}},
        {"smollm", false, {"[digits]", "[gpt2-bytes]"}},
    };
    return known;
}

[[noreturn]] void fail_unknown(const HfJson & tokenizer, const std::string & what, const std::string & shown) {
    std::string known;
    for (const KnownPre & pre : known_pres()) {
        known += concat(known.empty() ? "" : ", ", pre.name);
    }
    fail(tokenizer.path(), ": ", what, " of an unknown kind: ", in_quotes(shown, 300), "; known are ", known,
         " and BPE with byte fallback as Llama 2 and Gemma 4 have it");
}

// Some files hold line ends as characters, others as escapes.
std::string escaped_line_ends(const std::string & pattern) {
    std::string out;
    for (const char c : pattern) {
        if (c == '\r') {
            out += "\\r";
        } else if (c == '\n') {
            out += "\\n";
        } else {
            out += c;
        }
    }
    return out;
}

bool flag(const Json & step, const char * key, bool fallback) {
    const auto found = step.find(key);
    return found != step.end() && found->is_boolean() ? found->get<bool>() : fallback;
}

std::string text(const Json & step, const char * key) {
    const auto found = step.find(key);
    return found != step.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Steps read_steps(const HfJson & tokenizer, const Json & pre, bool & prefix_space) {
    Steps steps;
    if (!pre.is_object()) {
        fail_unknown(tokenizer, "pre_tokenizer", pre.dump());
    }
    const std::string type = text(pre, "type");
    if (type == "Sequence" && pre.contains("pretokenizers") && pre["pretokenizers"].is_array()) {
        for (const Json & part : pre["pretokenizers"]) {
            for (std::string & step : read_steps(tokenizer, part, prefix_space)) {
                steps.push_back(std::move(step));
            }
        }
        return steps;
    }
    if (type == "ByteLevel") {
        prefix_space = prefix_space || flag(pre, "add_prefix_space", true);
        return {flag(pre, "use_regex", true) ? "[gpt2-bytes]" : "[bytes]"};
    }
    if (type == "Digits" && flag(pre, "individual_digits", false)) {
        return {"[digits]"};
    }
    const bool isolated = text(pre, "behavior") == "Isolated" && !flag(pre, "invert", false);
    if (type == "Split" && isolated && pre.contains("pattern") && pre["pattern"].is_object()) {
        const std::string regex = text(pre["pattern"], "Regex");
        if (!regex.empty()) {
            return {escaped_line_ends(regex)};
        }
    }
    fail_unknown(tokenizer, "pre_tokenizer", pre.dump());
}

// One level of nesting is all that occurs: a Sequence of plain steps.
std::vector<Json> flatten(const Json & normalizer) {
    if (normalizer.is_object() && text(normalizer, "type") == "Sequence" && normalizer.contains("normalizers") &&
        normalizer["normalizers"].is_array()) {
        return normalizer["normalizers"].get<std::vector<Json>>();
    }
    return normalizer.is_null() ? std::vector<Json>{} : std::vector<Json>{normalizer};
}

PreTokenizer recognise_byte_level(const HfJson & tokenizer, const Json & pre, const Json & normalizer) {
    PreTokenizer result;
    result.kind       = TokenizerKind::byte_level;
    result.normalizer = "none";
    for (const Json & step : flatten(normalizer)) {
        if (!step.is_object() || text(step, "type") != "NFC") {
            fail_unknown(tokenizer, "normalizer", step.dump());
        }
        result.normalizer = "nfc";
    }
    const Steps  steps         = read_steps(tokenizer, pre, result.prefix_space);
    const bool   ignore_merges = flag(tokenizer.json()["model"], "ignore_merges", false);
    const char * fallback      = nullptr;
    for (const KnownPre & known : known_pres()) {
        if (known.steps == steps) {
            if (known.ignore_merges == ignore_merges || known.either) {
                result.name         = known.name;
                result.needs_merges = known.ignore_merges && !ignore_merges;
                return result;
            }
            fallback = known.name;
        }
    }
    if (fallback != nullptr) {
        fail_unknown(tokenizer, "pre_tokenizer", concat(fallback, " with ignore_merges ", ignore_merges));
    }
    fail_unknown(tokenizer, "pre_tokenizer", pre.dump());
}

// A split at spaces, where the normalizer has left none.
bool never_splits(const Json & pre) {
    return pre.is_object() && text(pre, "type") == "Split" && pre.contains("pattern") &&
           pre["pattern"] == Json{{"String", " "}};
}

PreTokenizer recognise_spm(const HfJson & tokenizer, const Json & pre, const Json & normalizer) {
    PreTokenizer result;
    result.kind       = TokenizerKind::spm;
    result.name       = "default";
    result.normalizer = "none";

    bool spaces_replaced = false;
    for (const Json & step : flatten(normalizer)) {
        const std::string type    = step.is_object() ? text(step, "type") : "";
        const bool        replace = type == "Replace" && text(step, "content") == "▁" && step.contains("pattern") &&
                             step["pattern"] == Json{{"String", " "}};
        if (type == "Prepend" && text(step, "prepend") == "▁") {
            result.prefix_space = true;
        } else if (replace) {
            spaces_replaced = true;
        } else {
            fail_unknown(tokenizer, "normalizer", step.dump());
        }
    }
    if (pre.is_object() && text(pre, "type") == "Metaspace" && text(pre, "replacement") == "▁") {
        const std::string scheme = text(pre, "prepend_scheme");
        result.prefix_space      = scheme.empty() ? flag(pre, "add_prefix_space", true) : scheme != "never";
        spaces_replaced          = true;
    } else if (never_splits(pre) && !result.prefix_space) {
        result.kind = TokenizerKind::whole_text;
        result.name.clear();
    } else if (!pre.is_null()) {
        fail_unknown(tokenizer, "pre_tokenizer", pre.dump());
    }
    if (!spaces_replaced) {
        fail_unknown(tokenizer, "normalizer", normalizer.dump());
    }
    return result;
}

} // namespace

std::string qwen2_pattern() {
    for (const KnownPre & known : known_pres()) {
        if (std::string(known.name) == "qwen2") {
            return known.steps.front();
        }
    }
    return {};
}

PreTokenizer recognise_pre_tokenizer(const HfJson & tokenizer) {
    const Json * model = tokenizer.find({"model"});
    if (model == nullptr || !model->is_object()) {
        fail(tokenizer.path(), ": no 'model' object");
    }
    const std::string type = text(*model, "type");
    // Old files have no type; BPE is the only model with merges.
    if (type != "BPE" && !(type.empty() && model->contains("merges"))) {
        fail_unknown(tokenizer, "model", type.empty() ? "without a type" : type);
    }
    const Json   null;
    const Json * pre        = tokenizer.find({"pre_tokenizer"});
    const Json * normalizer = tokenizer.find({"normalizer"});
    const bool   fallback   = flag(*model, "byte_fallback", false);
    const auto   recognise  = fallback ? recognise_spm : recognise_byte_level;
    return recognise(tokenizer, pre == nullptr ? null : *pre, normalizer == nullptr ? null : *normalizer);
}

} // namespace buoy
