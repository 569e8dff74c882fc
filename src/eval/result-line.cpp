// What the lines of a result file say.

#include "buoy/error.h"
#include "buoy/message.h"
#include "decode/generation-json.h"
#include "eval/hash.h"
#include "eval/result-file.h"
#include "io/json-file.h"
#include "io/mapped-file.h"

namespace buoy {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char * format_key     = "buoy_eval";
constexpr int          format_version = 1;

QaHeader parse_header(const Json & json) {
    QaHeader header;
    if (json.at(format_key) != format_version) {
        fail("format ", json.at(format_key).dump(), ", expected ", format_version);
    }
    header.settings  = json.at("settings");
    header.n_items   = json.at("items").get<size_t>();
    header.n_results = json.at("results").get<size_t>();
    header.n_shards  = json.at("shard").at(1).get<size_t>();
    header.shard     = json.at("shard").at(0).get<size_t>() - 1;
    if (header.n_shards == 0 || header.shard >= header.n_shards || !header.settings.is_object() ||
        json.at("hash") != hash_text(header.settings.dump())) {
        fail("its first line was changed");
    }
    return header;
}

QaResult parse_result(const Json & json) {
    QaResult result;
    result.model        = json.at("model").get<std::string>();
    result.condition    = json.at("condition").get<std::string>();
    result.item         = json.at("item").get<size_t>() - 1;
    result.id           = json.at("id").get<std::string>();
    result.n_passages   = json.at("n_passages").get<size_t>();
    result.gold         = json.at("gold").get<std::vector<size_t>>();
    result.prediction   = json.at("prediction").get<std::string>();
    result.scores       = {json.at("acc").get<double>(), json.at("f1").get<double>(), json.at("em").get<double>()};
    result.cut          = json.value("cut", false);
    result.too_long     = json.value("too_long", false);
    result.false_answer = json.value("false_answer", "");
    result.misled       = json.value("misled", false);
    result.attention    = json.value("attention", Json());
    return result;
}

// Calls parse with the line; whatever is wrong with it is an Error that names file and line.
template <typename Parse> auto parsed(const std::string & path, size_t n_line, const std::string & line, Parse parse) {
    const std::string where = concat(printable(path), ":", n_line);
    try {
        return parse(parse_ordered_json(line, "its text"));
    } catch (const Error & error) {
        fail(where, ": not a result of llama-diffusion-eval: ", error.what());
    } catch (const Json::exception & error) {
        fail(where, ": not a result of llama-diffusion-eval: ", printable(error.what(), 200));
    }
}

} // namespace

std::string header_line(const QaHeader & header) {
    return json_line({{format_key, format_version},
                      {"hash", hash_text(header.settings.dump())},
                      {"shard", {header.shard + 1, header.n_shards}},
                      {"items", header.n_items},
                      {"results", header.n_results},
                      {"settings", header.settings}});
}

std::string result_line(const QaResult & result) {
    Json json = {
        {"model", result.model},           {"condition", result.condition},
        {"item", result.item + 1},         {"id", result.id},
        {"n_passages", result.n_passages}, {"gold", result.gold},
        {"prediction", result.prediction}, {"acc", static_cast<int>(result.scores.acc)},
        {"f1", result.scores.f1},          {"em", static_cast<int>(result.scores.em)},
    };
    if (result.cut) {
        json["cut"] = true;
    }
    if (result.too_long) {
        json["too_long"] = true;
    }
    if (!result.false_answer.empty()) {
        json["false_answer"] = result.false_answer;
        json["misled"]       = result.misled;
    }
    if (!result.attention.is_null()) {
        json["attention"] = result.attention;
    }
    return json_line(json);
}

void check_same_settings(const QaHeader & expected, const std::string & path, const QaHeader & found) {
    const nlohmann::json ours   = nlohmann::json(expected.settings).flatten();
    const nlohmann::json theirs = nlohmann::json(found.settings).flatten();
    const auto           text   = [](const nlohmann::json & all, const std::string & key) {
        return all.contains(key) ? printable(all[key].dump(), 80) : std::string("nothing");
    };
    for (const nlohmann::json * all : {&ours, &theirs}) {
        for (const auto & [key, value] : all->items()) {
            if (!ours.contains(key) || !theirs.contains(key) || ours[key] != theirs[key]) {
                fail(printable(path), ": made with other settings: ", printable(key.substr(1)), " is ",
                     text(theirs, key), ", expected ", text(ours, key));
            }
        }
    }
}

ResultReader::ResultReader(const std::string & path) : path_(path) {
    MappedFile::open(path); // a regular file
    in_.open(path, std::ios::binary);
    if (!in_ || !next_line()) {
        fail(printable(path), ": can't be read, or is not a result file of llama-diffusion-eval");
    }
    header_ = parsed(path_, 1, line_, parse_header);
}

bool ResultReader::next_line() {
    constexpr size_t line_length_max = 64u << 20;

    std::streambuf & bytes = *in_.rdbuf();
    line_.clear();
    while (line_.empty() || line_.back() != '\n') {
        const int byte = bytes.sbumpc();
        if (byte == std::char_traits<char>::eof()) {
            return false; // without its line break it is not complete
        }
        if (line_.size() == line_length_max) {
            fail(printable(path_), ":", n_read_ + 1, ": a line of more than ", line_length_max, " bytes");
        }
        line_ += static_cast<char>(byte);
    }
    n_bytes_ += line_.size();
    return true;
}

bool ResultReader::next(QaResult & result) {
    if (!next_line()) {
        return false;
    }
    n_read_++;
    result = parsed(path_, n_read_ + 1, line_, parse_result);
    return true;
}

} // namespace buoy
