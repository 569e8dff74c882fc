#include "eval/dataset.h"

#include "buoy/message.h"
#include "buoy/utf8.h"
#include "eval/hash.h"
#include "eval/score.h"
#include "io/gzip.h"
#include "io/json-file.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <set>

namespace buoy {

namespace {

using Json  = nlohmann::json;
using Names = std::initializer_list<const char *>;

// Every answer is looked for in every passage.
constexpr size_t n_answers_max  = 4096;
constexpr size_t n_passages_max = 4096;

// The first of these keys that is there and not null.
const Json * find(const Json & object, Names names) {
    for (const char * name : names) {
        const auto found = object.find(name);
        if (found != object.end() && !found->is_null()) {
            return &*found;
        }
    }
    return nullptr;
}

std::string string_of(const Json & json, const std::string & where, const char * what) {
    if (!json.is_string()) {
        fail(where, ": ", what, ": expected a string, found ", json.type_name());
    }
    return utf8_repair(json.get_ref<const std::string &>());
}

std::string optional_string(const Json & object, Names names, const std::string & where) {
    const Json * found = find(object, names);
    return found != nullptr ? string_of(*found, where, *names.begin()) : "";
}

// Texts, lists of them, or objects that have them as "answer" or "text"; one without (KILT's provenance) adds none.
void collect_answers(const Json & json, const std::string & where, std::set<std::string> & seen,
                     std::vector<std::string> & answers) {
    if (json.is_array()) {
        for (const Json & part : json) {
            collect_answers(part, where, seen, answers);
        }
    } else if (json.is_object()) {
        const Json * inner = find(json, {"answer", "text"});
        if (inner != nullptr) {
            collect_answers(*inner, where, seen, answers);
        }
    } else {
        const std::string answer = string_of(json, where, "answers");
        if (!answer.empty() && seen.insert(answer).second) {
            if (answers.size() == n_answers_max) {
                fail(where, ": more than ", n_answers_max, " answers");
            }
            answers.push_back(answer);
        }
    }
}

bool gold_flag(const Json & json, const std::string & where) {
    if (!json.is_boolean() && !json.is_number_integer()) {
        fail(where, ": isgold: expected true or false, found ", json.type_name());
    }
    return json.is_boolean() ? json.get<bool>() : json != 0;
}

void read_passages(const Json & list, const std::string & where, QaItem & item) {
    if (!list.is_array()) {
        fail(where, ": passages: expected a list, found ", list.type_name());
    }
    if (list.size() > n_passages_max) {
        fail(where, ": passages: ", list.size(), ", expected at most ", n_passages_max);
    }
    for (const Json & entry : list) {
        QaPassage passage;
        if (entry.is_object()) {
            const Json * text = find(entry, {"text", "segment"});
            const Json * gold = find(entry, {"isgold", "is_gold"});
            if (text == nullptr) {
                fail(where, ": passage ", item.passages.size() + 1, " has neither text nor segment");
            }
            passage.text  = string_of(*text, where, "text");
            passage.title = optional_string(entry, {"title"}, where);
            passage.gold  = gold != nullptr && gold_flag(*gold, where);
            item.flagged  = item.flagged || gold != nullptr;
        } else {
            passage.text = string_of(entry, where, "passage");
        }
        item.passages.push_back(std::move(passage));
    }
}

QaItem read_item(const Json & json, const std::string & where, size_t index) {
    if (!json.is_object()) {
        fail(where, ": expected a JSON object, found ", json.type_name());
    }
    QaItem item;
    item.index            = index;
    const Json * id       = find(json, {"id", "_id", "qid"});
    const Json * answers  = find(json, {"answers", "answer", "output"});
    const Json * passages = find(json, {"ctxs", "passages", "passage"});
    item.id       = id == nullptr ? std::to_string(index + 1) : id->is_string() ? id->get<std::string>() : id->dump();
    item.question = optional_string(json, {"question", "query", "input"}, where);
    if (item.question.empty()) {
        fail(where, ": no question, expected one of question, query, input");
    }
    if (answers != nullptr) {
        std::set<std::string> seen;
        collect_answers(*answers, where, seen, item.answers);
    }
    if (item.answers.empty()) {
        fail(where, ": no answer, expected one of answers, answer, output");
    }
    if (passages != nullptr) {
        read_passages(*passages, where, item);
    }
    if (!item.flagged) {
        const AnswerSearch search(item.answers);
        for (QaPassage & passage : item.passages) {
            passage.gold = search.occurs_in(passage.text);
        }
    }
    return item;
}

} // namespace

QaDataset parse_dataset(const std::string & path, const std::string & text) {
    constexpr const char * mark = "\xEF\xBB\xBF";
    QaDataset              data;
    data.name     = std::filesystem::path(path).filename().string();
    data.hash     = hash_text(text);
    size_t n_line = 0;
    for (size_t first = text.rfind(mark, 0) == 0 ? 3 : 0; first < text.size();) {
        const size_t last = std::min(text.find('\n', first), text.size());
        n_line++;
        const std::string line = text.substr(first, last - first);
        first                  = last + 1;
        if (line.find_first_not_of(" \t\r") == std::string::npos) {
            continue;
        }
        const std::string where = concat(printable(path), ":", n_line);
        if (line.find_first_not_of(" \t") == line.find('[')) {
            fail(where, ": expected a JSON object, found array; every line is one question");
        }
        data.items.push_back(read_item(parse_json(line, where), where, data.items.size()));
    }
    if (data.items.empty()) {
        fail(printable(path), ": contains no questions, expected one JSON object per line");
    }
    return data;
}

QaDataset load_dataset(const std::string & path) { return parse_dataset(path, load_unpacked(path)); }

} // namespace buoy
