#include "eval/story.h"

#include "buoy/message.h"
#include "eval/hash.h"
#include "io/json-file.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace buoy {

namespace {

using Json = nlohmann::json;

std::vector<std::string> texts_of(const Json & json, const std::string & where) {
    if (!json.is_array() || !std::all_of(json.begin(), json.end(), [](const Json & one) { return one.is_string(); })) {
        fail(where, ": expected a list of strings");
    }
    return json.get<std::vector<std::string>>();
}

// "One day Mira left. A fox came." as its sentences, without the spaces between them.
std::vector<std::string> sentences_of(const std::string & story) {
    std::vector<std::string> all;
    for (size_t at = story.find_first_not_of(" \n"); at != std::string::npos; at = story.find_first_not_of(" \n", at)) {
        const size_t stop = story.find('.', at);
        const size_t end  = stop == std::string::npos ? story.size() : stop + 1;
        all.push_back(story.substr(at, end - at));
        at = end;
    }
    return all;
}

void collect_words(const std::string & text, std::set<std::string> & words) {
    static const std::regex word("[A-Za-z]+");
    for (auto at = std::sregex_iterator(text.begin(), text.end(), word); at != std::sregex_iterator(); ++at) {
        words.insert(at->str());
    }
}

} // namespace

bool StorySet::is_right(const std::string & request, const std::string & story) const {
    const std::vector<std::string> said = sentences_of(story);
    if (said.size() != sentences.size()) {
        return false;
    }
    for (size_t i = 0; i < said.size(); i++) {
        if (!std::regex_match(said[i], sentences[i])) {
            return false;
        }
    }
    std::set<std::string> words;
    collect_words(request, words);
    collect_words(story, words);
    return std::all_of(roles.begin(), roles.end(), [&](const std::set<std::string> & role) {
        return std::count_if(words.begin(), words.end(),
                             [&](const std::string & one) { return role.count(one) > 0; }) <= 1;
    });
}

StorySet parse_stories(const std::string & path, const std::string & text) {
    const std::string where = printable(path);
    const Json        json  = parse_json(text, where);
    StorySet          set;
    set.hash     = hash_text(text);
    set.requests = texts_of(json.value("requests", Json()), where + ": requests");
    for (const std::string & pattern : texts_of(json.value("sentences", Json()), where + ": sentences")) {
        try {
            set.sentences.emplace_back(pattern);
        } catch (const std::regex_error & error) {
            fail(where, ": sentence ", set.sentences.size() + 1,
                 " is no regular expression: ", printable(error.what(), 200));
        }
    }
    const Json roles = json.value("roles", Json::object());
    for (const auto & [name, words] : roles.items()) {
        const std::vector<std::string> list = texts_of(words, concat(where, ": role ", printable(name)));
        set.roles.emplace_back(list.begin(), list.end());
    }
    if (set.requests.empty() || set.sentences.empty()) {
        fail(where, ": no requests or no sentences");
    }
    return set;
}

bool has_stories(const std::string & text) {
    const Json json = Json::parse(text, nullptr, false);
    return json.is_object() && json.contains("requests");
}

} // namespace buoy
