#include "buoy/frequency-table.h"

#include "buoy/message.h"
#include "io/json-file.h"
#include "io/pending-file.h"

#include <nlohmann/json.hpp>

#include <charconv>

namespace buoy {

FrequencyTable load_frequency_table(const std::string & path) {
    const nlohmann::json json  = load_json(path);
    const std::string    where = printable(path);
    if (!json.is_object() || !json.contains("num_token") || !json["num_token"].is_number_integer() ||
        !json.contains("p_baseline_dict") || !json["p_baseline_dict"].is_object()) {
        fail(where, ": not a frequency table, expected {\"num_token\": N, \"p_baseline_dict\": {\"id\": count}}");
    }
    FrequencyTable table;
    table.n_total = json["num_token"].get<int64_t>();
    for (const auto & [key, value] : json["p_baseline_dict"].items()) {
        int32_t    id     = 0;
        const auto result = std::from_chars(key.data(), key.data() + key.size(), id);
        if (result.ec != std::errc() || result.ptr != key.data() + key.size() || id < 0 || !value.is_number_integer() ||
            value.get<int64_t>() < 0) {
            fail(where, ": entry ", in_quotes(key), " does not map a token id to a count");
        }
        table.counts[id] = value.get<int64_t>();
    }
    if (table.n_total <= 0) {
        fail(where, ": num_token is ", table.n_total, ", expected a positive number");
    }
    return table;
}

void save_frequency_table(const FrequencyTable & table, const std::string & path, bool force) {
    nlohmann::json counts = nlohmann::json::object();
    for (const auto & [id, count] : table.counts) {
        counts[std::to_string(id)] = count;
    }
    const std::string text = nlohmann::json{{"num_token", table.n_total}, {"p_baseline_dict", counts}}.dump() + "\n";
    PendingFile       file(path, force);
    file.write(text.data(), text.size());
    file.commit();
}

void count_tokens(FrequencyTable & table, const Vocab & vocab, const std::string & text) {
    for (const int32_t id : vocab.encode(text, false, false)) {
        table.counts[id]++;
        table.n_total++;
    }
}

} // namespace buoy
