// Text of strangers on its way to a terminal, a table, a figure, a page or a log: control characters never arrive.

#include "buoy/figure.h"
#include "buoy/message.h"
#include "buoy/printable.h"
#include "buoy/table.h"
#include "buoy/utf8.h"
#include "figure/svg.h"
#include "io/npz-reader.h"
#include "io/npz-writer.h"
#include "support/attn-cli.h"
#include "support/cli.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/random-context.h"
#include "support/recording.h"
#include "support/run-program.h"

#include <doctest/doctest.h>

#include <filesystem>

using namespace buoy;
using namespace buoy::test;

namespace {

// Sets a title, clears the screen; C1's form of it; reorders; ends a line and begins a comment or a script; no UTF-8.
const std::string evil = std::string("x\x1b]0;owned\x07\x1b[2J\xc2\x9b"
                                     "31m\xe2\x80\xae\x7f\x08\r\xff\xfe</script>") +
                         "\xe2\x81\xa6\xe2\x80\xa8y";
const std::string evil_utf8 = utf8_repair(evil);

// The first character that a terminal must not get; tabs and line ends may.
std::string first_bad(const std::string & text) {
    for (std::string_view left = text; !left.empty();) {
        const size_t length = printable_length(left);
        if (length == 0 && left[0] != '\n' && left[0] != '\t') {
            return printable(left.substr(0, 12)) + " of " + printable(text, 400);
        }
        left.remove_prefix(std::max<size_t>(length, 1));
    }
    return "";
}

ProgramResult run(const std::string & program, const Args & args, bool terminal = false) {
    ProgramSpec spec;
    spec.name     = program;
    spec.args     = args;
    spec.terminal = spec.terminal_out = terminal;
    spec.env["NO_COLOR"]              = "1";
    return run_program(spec);
}

std::string without(std::string text, const std::string & part) {
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) {
        text.erase(at, part.size());
    }
    return text;
}

// A terminal turns line ends into two characters, and a progress bar clears its line.
void check_clean(const ProgramResult & result) {
    CHECK_FALSE(result.timed_out);
    CHECK(result.code < 128);
    CHECK(first_bad(result.out) == "");
    CHECK(first_bad(without(without(without(result.err, "\r\033[K"), "\r\r\n"), "\r\n")) == "");
}

std::string small_gguf() {
    RandomModel model = small_model("llada");
    model.n_layer     = 1;
    return read_file(random_gguf(model));
}

void set_text(GgufBytes & file, const std::string & key, const std::string & value) {
    std::erase_if(file.pairs, [&](const GgufBytes::Pair & pair) { return pair.key == key; });
    file.text(key, value);
}

} // namespace

TEST_CASE("hostile text: values, keys and names of a GGUF file") {
    const GgufBytes        good = parse_gguf(small_gguf());
    std::vector<GgufBytes> files;
    for (const char * key : {"tokenizer.ggml.model", "tokenizer.ggml.pre", "general.architecture", "general.name",
                             "general.size_label", "tokenizer.chat_template", "tokenizer.ggml.normalizer",
                             "general.file_type", "tokenizer.ggml.bos_token_id", "llada.block_count",
                             "llada.rope.scaling.type", "diffusion.shift_logits", "split.count", "general.alignment"}) {
        files.push_back(good);
        set_text(files.back(), key, evil);
        files.push_back(good);
        set_text(files.back(), key + evil, "x");
        files.push_back(files.back()); // the same key twice
        files.back().text(key + evil, "x");
    }
    for (size_t i = 0; i < good.tensors.size(); i += 3) {
        files.push_back(good);
        files.back().tensors[i].name = evil.substr(0, 60);
        files.push_back(good);
        files.back().tensors[i].name += "\x1b[2J";
    }
    const std::string dir = temp_dir();
    for (size_t i = 0; i < files.size(); i++) {
        CAPTURE(i);
        const std::string path = write_file(dir, "evil.gguf", files[i].build());
        check_clean(run("llama-diffusion-cli", {"-m", path, "-p", "a", "-n", "2", "-v"}));
        check_clean(run("llama-diffusion-convert", {path, "-o", dir + "/out.gguf", "--force", "-v", "--verify"}));
    }
}

TEST_CASE("hostile text: names of files") {
    const std::string dir = temp_dir();
    const std::string bad = dir + "/" + "a\x1b]0;owned\x07\xe2\x80\xae\xff";
    write_file(dir, "m.gguf", small_gguf());
    std::filesystem::copy(dir + "/m.gguf", bad + ".gguf");
    write_file(dir, "data.jsonl", "{\"question\": \"q\", \"answers\": [\"a\"]}\n");
    for (const bool terminal : {false, true}) {
        check_clean(run("llama-diffusion-cli", {"-m", bad, "-p", "a"}, terminal));
        check_clean(run("llama-attention", {"info", bad}, terminal));
        check_clean(run("llama-attention", {"sinks", bad + ".npz"}, terminal));
        check_clean(run("llama-diffusion-eval", {"qa", "-m", bad + ".gguf", "--data", bad}, terminal));
        check_clean(run("llama-diffusion-bench", {"-m", bad + ".gguf", "-r", "1", "-n", "1", "-p", "1"}, terminal));
    }
    for (const char * format : {"md", "csv", "json", "jsonl"}) {
        CAPTURE(format);
        check_clean(run("llama-diffusion-bench", {"-m", bad + ".gguf", "-n", "2", "-r", "1", "-o", format}));
    }
    // on a terminal also what is printed for scripts
    check_clean(run("llama-diffusion-convert", {dir + "/m.gguf", "-o", bad + "2.gguf"}, true));
    CHECK(std::filesystem::exists(bad + "2.gguf"));
}

TEST_CASE("hostile text: strings of a recording") {
    const std::string dir  = temp_dir();
    const std::string good = dir + "/good.npz";
    RecordingBench    bench;
    RecordParams      record = record_params(good, TapReduce::none, RecordType::f16);
    record.regions           = {{"gold", {{0, 2}}}, {"other", {{2, 4}}}};
    bench.record(record);
    const NpzReader reader = NpzReader::open(good);

    // every string of meta.json in turn, then all of those that may be anything
    const nlohmann::json        meta = read_meta(reader);
    std::vector<nlohmann::json> metas;
    const nlohmann::json        flat = meta.flatten();
    for (const auto & [pointer, value] : flat.items()) {
        if (value.is_string() && (pointer.find("/pieces/") == std::string::npos || pointer == "/pieces/1")) {
            metas.push_back(meta);
            metas.back()[nlohmann::json::json_pointer(pointer)] = evil_utf8;
        }
    }
    metas.push_back(meta);
    nlohmann::json & all      = metas.back();
    all["model"]["name"]      = evil_utf8;
    all["prompt"]             = evil_utf8;
    all["pieces"]             = std::vector<std::string>(meta.at("pieces").size(), evil_utf8);
    all["regions"][0]["name"] = evil_utf8;
    all[evil_utf8]            = evil_utf8;
    CHECK(metas.size() > 10);

    for (size_t i = 0; i < metas.size(); i++) {
        CAPTURE(i);
        const std::string path = dir + "/evil.npz";
        PendingFile       file(path, true);
        NpzWriter         npz(file);
        for (const NpzMember & member : reader.members()) {
            if (member.name == "meta.json") {
                npz.add(member.name, metas[i].dump());
            } else {
                NpyHeader                header;
                const std::vector<float> values = reader.read_floats(member, header);
                if (header.type == NpyType::i4) {
                    std::vector<int32_t> whole(values.begin(), values.end());
                    npz.add(member.name,
                            npy_header(NpyType::i4, header.shape) +
                                std::string(reinterpret_cast<const char *>(whole.data()), 4 * whole.size()));
                } else {
                    npz.add(member.name,
                            npy_header(NpyType::f4, header.shape) +
                                std::string(reinterpret_cast<const char *>(values.data()), 4 * values.size()));
                }
            }
        }
        npz.finish();
        file.commit();
        const bool last     = i + 1 == metas.size();
        const Args figure   = {"--svg", dir + "/f.svg"};
        const Args commands = {"sinks", "absorption", "temporal", "regions", "received", "depth"};
        check_clean(run("llama-attention", {"info", path}));
        if (!last && i % 4 != 0) {
            continue; // the rest takes long
        }
        check_clean(run("llama-attention", {"info", path, "--json"}));
        check_clean(run("llama-attention", {"cat", path, "meta.json"}));
        for (const std::string & command : commands) {
            CAPTURE(command);
            check_clean(run("llama-attention", Args{command, path} + figure));
            if (std::filesystem::exists(dir + "/f.svg")) {
                CHECK(first_bad(read_file(dir + "/f.svg")) == "");
            }
            if (last) {
                check_clean(run("llama-attention", {command, path, "--csv"}));
                check_clean(run("llama-attention", {command, path, "--json"}));
            }
        }
        if (last) {
            check_clean(run("llama-attention", {"report", path, "-o", dir + "/r.html", "--force"}));
            const std::string page = read_file(dir + "/r.html");
            CHECK(first_bad(page) == "");
            CHECK(page.find("owned") != std::string::npos);
            CHECK(page.find("\\u001b") == std::string::npos); // nor by way of JSON
            CHECK(page.find("\\u202e") == std::string::npos);
        }
    }
}

TEST_CASE("hostile text: what a model writes reaches a pipe as it is and a terminal without control characters") {
    // a token for every byte, so that whatever the random model writes has some of them
    RandomModel random = small_model("llada");
    const Args  args   = {"-m", random_gguf(random), "-p", "a", "-n", "64", "--temp", "5", "-s", "3"};
    check_clean(run("llama-diffusion-cli", args, true));
    check_clean(run("llama-diffusion-cli", args + Args{"--json"}, true));
    const ProgramResult piped = run("llama-diffusion-cli", args);
    CHECK(piped.code == 0);
    CHECK(first_bad(piped.out) != ""); // else the test says nothing
}

TEST_CASE("hostile text: tables, CSV and figures") {
    analysis::Table table;
    table.title   = evil;
    table.columns = {{evil}, {"n"}};
    table.rows    = {{evil, int64_t{1}}, {std::string("a\nb"), 2.0}};
    CHECK(first_bad(to_text(table)) == "");
    CHECK(first_bad(to_text(table, 20)) == "");
    CHECK(first_bad(to_csv(table)) == "");
    CHECK(to_csv(table).find("\"a\nb\",2.0") != std::string::npos); // a line break is CSV's own
    CHECK(first_bad(figure::xml_escape(evil)) == "");
    CHECK(figure::xml_escape("<a b=\"&\">\x1b\u202e\u009b\x7f") ==
          "&lt;a b=&quot;&amp;&quot;&gt;\uFFFD\uFFFD\uFFFD\uFFFD");
}
