// Datasets of questions: the formats that are read, and what is wrong with others.

#include "buoy/error.h"
#include "eval/dataset.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/text.h"

#include <doctest/doctest.h>
#include <zlib.h>

using namespace buoy;
using namespace buoy::test;

namespace {

std::string refusal(const std::string & text) {
    try {
        parse_dataset("dir/data.jsonl", text);
    } catch (const Error & error) {
        CHECK(error.kind() == ErrorKind::request);
        return error.what();
    }
    return "";
}

} // namespace

TEST_CASE("both formats") {
    const QaDataset data = parse_dataset(
        "data.jsonl",
        R"({"id": "x1", "question": "Who?", "answers": ["Ann", "Anna", "Ann"], "ctxs": [{"title": "T", "text": "Ann did.", "isgold": false}, {"text": "She did.", "isgold": true}]})"
        "\n"
        R"({"query": "Where?", "output": [{"answer": "Rome"}, {"provenance": []}, {"answer": ["Roma", ""]}], "passage": [{"segment": "In Paris."}, {"segment": "In ROME, they say."}]})"
        "\n"
        R"({"qid": 7, "input": "When?", "answer": {"text": "2018"}})"
        "\n"
        R"({"question": null, "query": "How?", "answers": "so", "passages": ["just so"]})");
    REQUIRE(data.items.size() == 4);
    const QaItem & flagged = data.items[0];
    CHECK(flagged.id == "x1");
    CHECK(flagged.flagged);
    CHECK(flagged.answers == std::vector<std::string>{"Ann", "Anna"});
    CHECK(flagged.passages[0].title == "T");
    CHECK_FALSE(flagged.passages[0].gold); // the dataset says so, whatever stands there
    CHECK(flagged.passages[1].gold);
    const QaItem & found = data.items[1];
    CHECK(found.id == "2");
    CHECK_FALSE(found.flagged);
    CHECK(found.answers == std::vector<std::string>{"Rome", "Roma"});
    CHECK_FALSE(found.passages[0].gold);
    CHECK(found.passages[1].gold);
    CHECK(data.items[2].id == "7");
    CHECK(data.items[2].answers == std::vector<std::string>{"2018"});
    CHECK(data.items[2].passages.empty());
    CHECK(data.items[3].question == "How?");
    CHECK(data.items[3].passages[0].gold);
}

TEST_CASE("byte order mark, carriage returns and empty lines do not matter") {
    const std::string line = R"({"question": "q", "answers": ["a1"]})";
    const QaDataset   data = parse_dataset("d", "\xEF\xBB\xBF" + line + "\r\n\r\n \n" + line);
    CHECK(data.items.size() == 2);
    CHECK(data.items[1].index == 1);
}

TEST_CASE("what is wrong is told with file and line") {
    CHECK(refusal("") == "dir/data.jsonl: contains no questions, expected one JSON object per line");
    CHECK(contains(refusal("\n{\"question\": \"q\"}\n"), "dir/data.jsonl:2: no answer"));
    CHECK(contains(refusal("{\"answers\": [\"x\"]}"), "dir/data.jsonl:1: no question"));
    CHECK(contains(refusal("{\"question\": 5, \"answers\": [\"x\"]}"), "expected a string, found number"));
    CHECK(contains(refusal("{\"question\": \"q\", \"answers\": [5]}"), "answers: expected a string"));
    CHECK(contains(refusal("{\"question\": \"q\", \"answers\": [\"\"]}"), "no answer"));
    CHECK(contains(refusal("{\"question\": \"q\", \"answers\": [\"x\"], \"ctxs\": {}}"), "expected a list"));
    CHECK(contains(refusal("{\"question\": \"q\", \"answers\": [\"x\"], \"ctxs\": [{\"title\": \"t\"}]}"),
                   "passage 1 has neither"));
    CHECK(contains(
        refusal("{\"question\": \"q\", \"answers\": [\"x\"], \"ctxs\": [{\"text\": \"t\", \"isgold\": \"y\"}]}"),
        "isgold"));
    CHECK(contains(refusal("[\n{}\n]"), "dir/data.jsonl:1: expected a JSON object, found array"));
    CHECK(contains(refusal("[1]"), "dir/data.jsonl:1: expected a JSON object, found array"));
    CHECK(contains(refusal("{\"question\": "), "dir/data.jsonl:1: not valid JSON"));
}

TEST_CASE("gzip is unpacked, whatever the file's name") {
    const std::string dir  = temp_dir();
    const std::string text = R"({"question": "q", "answers": ["x"]})";
    gzFile            file = gzopen((dir + "/packed.jsonl").c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
    const QaDataset packed = load_dataset(dir + "/packed.jsonl");
    const QaDataset plain  = load_dataset(write_file(dir, "plain.jsonl", text));
    CHECK(packed.items.size() == 1);
    CHECK(packed.hash == plain.hash);
    const std::string cut = read_file(dir + "/packed.jsonl");
    CHECK_THROWS_AS(load_dataset(write_file(dir, "cut.jsonl", cut.substr(0, cut.size() - 6))), Error);
    CHECK_THROWS_AS(load_dataset(dir + "/missing.jsonl"), Error);
    CHECK_THROWS_AS(load_dataset(dir), Error);
}
