// Result files: what survives a cut, what is refused, shards put together, and what is made of them.

#include "buoy/error.h"
#include "eval/result-file.h"
#include "eval/run.h"
#include "eval/summary.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/text.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

using namespace buoy;
using namespace buoy::test;

namespace {

constexpr size_t n_items = 5;

QaHeader header_of(size_t shard = 0, size_t n_shards = 1) {
    QaHeader header;
    header.settings  = {{"dataset", {{"name", "d.jsonl"}, {"hash", "1"}}},
                        {"models", {{{"name", "m1"}}, {{"name", "m2"}}}},
                        {"conditions", {{{"name", "closed-book"}}, {{"name", "passages=5"}}}},
                        {"seed", 1},
                        {"generate", {{"temperature", 0.5}}}};
    header.n_items   = n_items;
    header.shard     = shard;
    header.n_shards  = n_shards;
    header.n_results = 0;
    for (size_t i = shard; i < n_items; i += n_shards) {
        header.n_results += 4;
    }
    return header;
}

// m1 is right with passages, m2 never; passages=5 of the last item have lost words.
std::vector<QaResult> results_of(size_t shard = 0, size_t n_shards = 1) {
    std::vector<QaResult> results;
    for (const char * model : {"m1", "m2"}) {
        for (size_t i = shard; i < n_items; i += n_shards) {
            for (const char * condition : {"closed-book", "passages=5"}) {
                QaResult   result;
                const bool right  = std::string(model) == "m1" && std::string(condition) == "passages=5";
                result.model      = model;
                result.condition  = condition;
                result.item       = i;
                result.id         = "id \"" + std::to_string(i) + "\"";
                result.prediction = "one\ntwo \xC3\xA9";
                result.scores     = {right ? 1.0 : 0.0, right ? 0.1 + 0.2 : 0.0, 0.0};
                result.cut        = i + 1 == n_items && right;
                result.gold       = {2};
                results.push_back(result);
            }
        }
    }
    return results;
}

void write_from(ResultWriter & file, const std::vector<QaResult> & results) {
    for (size_t i = file.found().size(); i < results.size(); i++) {
        file.append(results[i]);
    }
}

std::string written(const std::string & path, size_t shard = 0, size_t n_shards = 1) {
    ResultWriter file(path, header_of(shard, n_shards));
    write_from(file, results_of(shard, n_shards));
    return read_file(path);
}

std::string refusal(const std::function<void()> & act) {
    try {
        act();
    } catch (const Error & error) {
        return error.what();
    }
    return "";
}

} // namespace

TEST_CASE("a file that was cut anywhere goes on from its last complete line") {
    const std::string dir   = temp_dir();
    const std::string whole = written(dir + "/whole.jsonl");
    const std::string path  = dir + "/cut.jsonl";
    for (size_t length = 0; length <= whole.size(); length += length < 700 ? 1 : 13) {
        write_file(path, whole.substr(0, length));
        const std::string again = written(path);
        if (again != whole) {
            CAPTURE(length);
            CHECK(again == whole);
            break;
        }
    }
}

TEST_CASE("a run that could not begin leaves nothing that refuses another one") {
    const std::string path = temp_dir() + "/r.jsonl";
    {
        QaHeader other         = header_of();
        other.settings["seed"] = 2;
        ResultWriter file(path, other);
    }
    CHECK(read_file(path).empty());
    CHECK(written(path) == written(temp_dir() + "/whole.jsonl"));
}

TEST_CASE("lines are read as they were written") {
    const std::string     path    = temp_dir() + "/r.jsonl";
    std::vector<QaResult> results = results_of();
    results[1].attention          = {{"gold", {0.25, 0.5}}};
    results[1].false_answer       = "no";
    results[1].misled             = true;
    results[1].too_long           = true;
    {
        ResultWriter file(path, header_of());
        write_from(file, results);
    }
    ResultReader reader(path);
    QaResult     result;
    for (const QaResult & expected : results) {
        REQUIRE(reader.next(result));
        CHECK(result_line(result) == result_line(expected));
        CHECK(reader.line() == result_line(expected));
        CHECK(result.scores.f1 == expected.scores.f1);
        CHECK(result.misled == expected.misled);
    }
    CHECK_FALSE(reader.next(result));
    CHECK(reader.n_read() == results.size());
}

TEST_CASE("a run with other settings is refused, and the file stays as it is") {
    const std::string path   = temp_dir() + "/r.jsonl";
    const std::string before = written(path);
    const auto        open   = [&](const QaHeader & header) { return refusal([&] { ResultWriter(path, header); }); };
    QaHeader          other  = header_of();
    other.settings["generate"]["temperature"] = 0.75;
    CHECK(open(other) == path + ": made with other settings: generate/temperature is 0.5, expected 0.75");
    other = header_of();
    other.settings["models"].push_back({{"name", "m3"}});
    CHECK(open(other) == path + ": made with other settings: models/2/name is nothing, expected \"m3\"");
    CHECK(open(header_of(1, 2)) == path + ": contains shard 1/1, expected 2/2");
    CHECK(read_file(path) == before);
    write_file(path, "some text of mine\n");
    CHECK(contains(open(header_of()), ":1: not a result of llama-diffusion-eval"));
    CHECK(read_file(path) == "some text of mine\n");
    write_file(path, before.substr(0, before.find('\n') + 1) + "{\"model\": 1}\n");
    CHECK(contains(open(header_of()), ":2: not a result"));
    std::string changed = before;
    changed.replace(changed.find("0.5"), 3, "0.6");
    write_file(path, changed);
    CHECK(contains(open(header_of()), "its first line was changed"));
    CHECK(contains(refusal([] { ResultWriter("/dev/null", header_of()); }), "not a file that can be written"));
}

TEST_CASE("one writer at a time") {
    const std::string path = temp_dir() + "/r.jsonl";
    ResultWriter      first(path, header_of());
    CHECK(refusal([&] { ResultWriter(path, header_of()); }) == path + ": another run is writing it");
}

TEST_CASE("shards make the file that one run writes") {
    const std::string        dir = temp_dir();
    std::vector<std::string> paths;
    for (const size_t shard : {2, 0, 1}) {
        paths.push_back(dir + "/shard" + std::to_string(shard));
        written(paths.back(), shard, 3);
    }
    const auto merge = [&](const std::vector<std::string> & from) {
        return refusal([&] { merge_results(from, dir + "/merged", false); });
    };
    CHECK(merge({paths[0], paths[1]}) == "shard 2/3 is missing");
    CHECK(contains(merge({paths[0], paths[1], paths[1]}), "shard 1/3 is also in"));
    const std::string complete = read_file(paths[2]);
    write_file(paths[2], complete.substr(0, complete.size() - 3));
    CHECK(contains(merge(paths), "7 of 8 results"));
    CHECK_FALSE(std::filesystem::exists(dir + "/merged"));
    QaHeader other         = header_of(1, 3);
    other.settings["seed"] = 2;
    write_file(paths[2], header_line(other));
    CHECK(contains(merge(paths), "seed is 2, expected 1"));
    write_file(paths[2], complete);
    CHECK(merge(paths) == "");
    CHECK(read_file(dir + "/merged") == written(dir + "/whole"));
    CHECK(contains(merge(paths), "exists"));
}

TEST_CASE("means, gains and differences") {
    const std::string path = temp_dir() + "/r.jsonl";
    written(path);
    const QaSummary summary = summarize(path);
    REQUIRE(summary.cells.size() == 4);
    const QaCell & with = summary.cells[1];
    CHECK(with.model == "m1");
    CHECK(with.condition == "passages=5");
    CHECK(with.n == n_items);
    CHECK(with.n_cut == 1);
    CHECK(with.acc.mean == 1.0);
    CHECK(with.acc.low == 1.0);
    CHECK(with.f1.mean == doctest::Approx(0.3));
    CHECK(with.gain_acc.mean == 1.0);
    CHECK(summary.cells[0].gain_acc.n == 0);
    CHECK(summary.cells[3].gain_acc.mean == 0.0);
    REQUIRE(summary.differences.size() == 2);
    CHECK(summary.differences[1].acc.mean == 1.0);
    CHECK(summary.differences[0].acc.mean == 0.0);
    const std::string text = to_text(summary_tables(summary)[0]);
    CHECK(contains(text, "100.0 [100.0, 100.0]"));
    CHECK(contains(text, "+100.0 [+100.0, +100.0]"));
    CHECK(contains(to_csv(summary_csv(summary)), "m1,m2,passages=5,5,"));
    const auto json = summary_json(summary);
    CHECK(json["complete"] == true);
    CHECK(json["scores"][1]["acc"]["mean"] == 1.0);
    CHECK(json["scores"][0]["gain_acc"].is_null());
}

TEST_CASE("an interval has its ends where the means of resamples have them") {
    // 30 of 100 right: the standard error of the mean is sqrt(0.3 · 0.7 / 100) = 0.046, so about ±0.09
    const std::string path   = temp_dir() + "/r.jsonl";
    QaHeader          header = header_of();
    header.n_results         = 100;
    {
        ResultWriter file(path, header);
        for (size_t i = 0; i < 100; i++) {
            QaResult result   = results_of()[0];
            result.item       = i;
            result.scores.acc = i % 10 < 3 ? 1.0 : 0.0;
            file.append(result);
        }
    }
    const QaMean acc = summarize(path).cells.at(0).acc;
    CHECK(acc.mean == doctest::Approx(0.3));
    CHECK(acc.low == doctest::Approx(0.21).epsilon(0.1));
    CHECK(acc.high == doctest::Approx(0.39).epsilon(0.1));
}

TEST_CASE("a file that nobody named is named after data, settings and shard") {
    QaDataset dataset;
    dataset.name = "some/questions.jsonl.gz";
    QaRun run;
    run.dataset            = &dataset;
    const std::string name = default_output(run);
    CHECK(name.rfind("questions-", 0) == 0);
    CHECK(name.size() == std::string("questions-01234567.results.jsonl").size());
    CHECK(default_output(run) == name);
    run.shard    = 1;
    run.n_shards = 4;
    CHECK(default_output(run) == name.substr(0, name.find('.')) + "-2-of-4.results.jsonl");
    run.generate.seed = 7;
    CHECK(default_output(run).substr(0, 18) != name.substr(0, 18));
}
