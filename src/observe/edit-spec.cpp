#include "buoy/edit.h"
#include "buoy/message.h"
#include "buoy/parse.h"
#include "engine/request-check.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace buoy {

namespace {

[[noreturn]] void refuse(const std::string & text, const std::string & why) {
    fail("edit ", in_quotes(text), ": ", why);
}

// No region's name begins like one.
bool is_number_like(const std::string & text) { return text.find_first_of("0123456789+-") == 0; }

// What stands behind a name: ":2.5", "@3", ":2.5@3"
void parse_found(const std::string & edit, const std::string & text, size_t name_length, PositionTerm & term) {
    std::string  rest = text.substr(name_length);
    const size_t at   = rest.find('@');
    if (at != std::string::npos) {
        const auto step = parse_number<int32_t>(rest.substr(at + 1));
        if (!step || *step < 0) {
            refuse(edit, in_quotes(text) + " has no step after @");
        }
        term.step = *step;
        rest.resize(at);
    }
    if (!rest.empty()) {
        const auto epsilon = parse_number<float>(rest.substr(1));
        if (!epsilon || !std::isfinite(*epsilon) || *epsilon < 0.0f) {
            refuse(edit, in_quotes(text) + " has no number of standard deviations after the colon");
        }
        term.epsilon = *epsilon;
    }
    if ((at != std::string::npos) != (term.kind == PositionTerm::Kind::anchors)) {
        refuse(edit, in_quotes(text) + (term.kind == PositionTerm::Kind::anchors
                                            ? " needs the step to find them at, as in anchors@0"
                                            : " has a step, but sinks are found in every step"));
    }
}

bool is_word(const std::string & text, const std::string & word) {
    return text.compare(0, word.size(), word) == 0 &&
           (text.size() == word.size() || text[word.size()] == ':' || text[word.size()] == '@');
}

PositionTerm parse_term(const std::string & edit, const std::string & text) {
    PositionTerm term;
    if (text == "*" || text == "all") {
        return term;
    }
    if (is_number_like(text)) {
        const auto range = parse_index_ranges("edit " + in_quotes(edit), text)[0];
        term.first       = range.first;
        term.last        = range.second;
    } else if (is_word(text, "sinks")) {
        term.kind = PositionTerm::Kind::sinks;
        parse_found(edit, text, 5, term);
    } else if (is_word(text, "anchors")) {
        term.kind = PositionTerm::Kind::anchors;
        parse_found(edit, text, 7, term);
    } else {
        term.kind = PositionTerm::Kind::region;
        term.name = text;
    }
    return term;
}

std::vector<PositionTerm> parse_terms(const std::string & edit, const std::string & text) {
    std::vector<PositionTerm> terms;
    for (const std::string & part : split(text)) {
        if (part.empty()) {
            refuse(edit, in_quotes(text) + " has an empty part");
        }
        terms.push_back(parse_term(edit, part));
    }
    return terms;
}

void parse_setting(EditSpec & spec, const std::string & name, const std::string & value) {
    const std::string where = "edit " + in_quotes(spec.text) + ", " + name;
    if (name == "keys") {
        spec.keys = parse_terms(spec.text, value);
    } else if (name == "queries") {
        spec.queries = parse_terms(spec.text, value);
        for (const PositionTerm & term : spec.queries) {
            if (term.kind == PositionTerm::Kind::sinks || term.kind == PositionTerm::Kind::anchors) {
                refuse(spec.text, "queries are positions or regions; sinks and anchors are keys");
            }
        }
    } else if (name == "layers") {
        spec.layers = parse_index_ranges(where, value);
    } else if (name == "heads") {
        spec.heads = parse_index_ranges(where, value);
    } else if (name == "steps") {
        spec.steps = parse_index_ranges(where, value);
    } else {
        refuse(spec.text, in_quotes(name) + " is unknown, expected keys, queries, layers, heads or steps");
    }
}

float parse_bias(const std::string & edit, const std::string & text) {
    const auto bias = parse_number<float>(text[0] == '+' ? text.substr(1) : text);
    if (!bias || !std::isfinite(*bias) || (text[0] == '+' && std::signbit(*bias))) {
        refuse(edit, in_quotes(text) + " is not a number to add, such as +4.0 or -1.5");
    }
    if (std::abs(*bias) > attention_bias_max) {
        refuse(edit, in_quotes(text) +
                         concat(" is too large a bias, expected -", attention_bias_max, " to +", attention_bias_max));
    }
    return *bias;
}

} // namespace

EditSpec parse_edit(const std::string & text) {
    EditSpec spec;
    spec.text = text;
    std::istringstream       words(text);
    std::string              verb, word;
    bool                     biased = false;
    std::vector<std::string> seen;
    words >> verb;
    if (verb != "drop" && verb != "bias") {
        refuse(text, "it must begin with drop or bias");
    }
    while (words >> word) {
        const size_t equals = word.find('=');
        if (equals != std::string::npos) {
            const std::string name = word.substr(0, equals);
            if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
                refuse(text, name + " is given twice");
            }
            seen.push_back(name);
            parse_setting(spec, name, word.substr(equals + 1));
        } else if (word[0] == '+' || word[0] == '-') {
            if (biased || verb == "drop") {
                refuse(text, in_quotes(word) + (biased ? " is a second bias" : " is a bias, and drop takes none"));
            }
            spec.bias = parse_bias(text, word);
            biased    = true;
        } else {
            refuse(text, in_quotes(word) + " is neither NAME=VALUE nor a bias such as +4.0");
        }
    }
    if (spec.keys.empty()) {
        refuse(text, "it needs keys, such as keys=0, keys=12-15, keys=sinks or keys=REGION");
    }
    if (verb == "bias" && !biased) {
        refuse(text, "it needs a bias, such as +4.0");
    }
    spec.bias = verb == "drop" ? -std::numeric_limits<float>::infinity() : spec.bias;
    return spec;
}

} // namespace buoy
