// Small files and texts that steer a run: regions, edits of the attention, frequency tables, importance matrices, published cases.

#include "gguf-mutate.h"
#include "mutate.h"
#include "target.h"

#include "buoy/edit.h"
#include "buoy/frequency-table.h"
#include "buoy/regions.h"
#include "buoy/replay-case.h"
#include "imatrix.h"
#include "io/json-file.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/vocab-kinds.h"

#include <nlohmann/json.hpp>

#include <map>

namespace buoy::fuzz {

namespace {

// regions

std::vector<std::string> region_seeds() {
    return {R"({"regions": [{"name": "doc", "text": "a b", "occurrence": 2}, {"name": "q", "tokens": [1, 3]},
 {"name": "rules", "role": "system"}, {"name": "all", "text": "b", "occurrence": "all"}]})"};
}

void run_regions(const std::string & input) {
    static const Vocab vocab = Vocab::load(scratch_file("vocab.gguf", test::vocab_of("gpt2").build()));
    RegionSource       source;
    source.tokens    = vocab.encode("a b a b the c", false, false);
    source.n_predict = 4;
    const auto limit = static_cast<int32_t>(source.tokens.size()) + source.n_predict;
    for (const Region & region : make_regions(load_regions(scratch_file("regions.json", input)), vocab, source)) {
        for (const auto & [first, last] : region.spans) {
            demand(0 <= first && first < last && last <= limit, "a region lies in the sequence");
        }
    }
}

// edits

std::vector<std::string> edit_seeds() {
    return {"drop keys=sinks layers=0-7", "bias keys=12-15,gold heads=3 +4.0", "drop keys=anchors:2.5@3 queries=answer",
            "bias keys=sinks:1e3 steps=0,2- -inf", "bias keys=0 -1e-3 layers=1,3-4"};
}

void run_edit(const std::string & input) {
    const EditSpec spec = parse_edit(input);
    demand(spec.text == input, "an edit remembers what was typed");
    ModelInfo info;
    info.n_layer = 8;
    info.n_head  = 4;
    const AttentionEditor editor({spec}, info, {{"gold", {{2, 4}}}, {"answer", {{8, 16}}}}, 16, 8);
}

void mutate_edit(std::string & input, Random & random) {
    static const std::vector<std::string> words = {
        "drop", "bias", "keys=", "queries=", "layers=", "heads=", "steps=", "sinks", "anchors", "gold",       ":", "@",
        "-",    "+",    ",",     " ",        "0",       "7",      "1e39",   "nan",   "inf",     "2147483648", "-1"};
    mutate_text(input, random, words);
}

// frequency tables

std::vector<std::string> frequency_seeds() { return {R"({"num_token": 12, "p_baseline_dict": {"0": 5, "7": 7}})"}; }

void run_frequency(const std::string & input) {
    const FrequencyTable table = load_frequency_table(scratch_file("table.json", input));
    demand(table.n_total > 0, "a table has tokens");
    for (const auto & [id, count] : table.counts) {
        demand(id >= 0 && count >= 0, "ids and counts are not negative");
    }
}

// importance matrices

std::vector<std::string> imatrix_seeds() {
    using test::le;

    const std::string path = scratch_dir() + "/seed.imatrix";
    save_imatrix(path, true, {{"blk.0.attn_q.weight", {{1, 2, 3, 4}, {2}}}}, "text", 3, 64);
    const std::string name = "blk.0.attn_q.weight";
    const std::string old  = le(int32_t{1}) + le(static_cast<int32_t>(name.size())) + name + le(int32_t{2}) +
                            le(int32_t{2}) + le(1.0f) + le(4.0f) + le(int32_t{1}) + le(int32_t{1}) + "t";
    return {test::read_file(path), old};
}

void run_imatrix(const std::string & input) {
    const Imatrix matrix = Imatrix::load(scratch_file("fuzz.imatrix", input));
    PlannedTensor tensor;
    tensor.name   = "blk.0.attn_q.weight";
    tensor.type   = GGML_TYPE_Q4_0;
    tensor.n_cols = 4;
    matrix.find(tensor);
}

// published cases

// One of each sampler.
std::vector<std::string> case_seeds() {
    std::map<std::string, std::string> seeds;
    for (const std::string name : {"llada", "dream", "sdar", "llada2-moe", "llada21-moe", "rnd1", "fast-dllm-v2",
                                   "stable-diffcoder", "nemotron-labs-diffusion", "llada2-algorithms"}) {
        nlohmann::json all = load_json(test::source_dir() + "/tests/oracles/" + name + "/expected.json");
        for (nlohmann::json & one : all["cases"]) {
            one["id"] = "x";
            one.erase("steps");
            seeds[one["sampler"].get<std::string>()] = nlohmann::json{{"cases", {one}}}.dump();
        }
    }
    std::vector<std::string> texts;
    for (const auto & [sampler, text] : seeds) {
        texts.push_back(text);
    }
    return texts;
}

void run_case(const std::string & input) {
    const ReplayCase found = load_case(scratch_file("case.json", input), "x");
    demand(found.id == "x", "a case is the one that was asked for");
}

} // namespace

Target case_target() { return {"case", case_seeds, run_case, mutate_json}; }
Target regions_target() { return {"regions", region_seeds, run_regions, mutate_json}; }
Target edit_target() { return {"edit", edit_seeds, run_edit, mutate_edit}; }
Target frequency_table_target() { return {"frequency-table", frequency_seeds, run_frequency, mutate_json}; }
Target imatrix_target() { return {"imatrix", imatrix_seeds, run_imatrix, mutate_gguf}; }

} // namespace buoy::fuzz
