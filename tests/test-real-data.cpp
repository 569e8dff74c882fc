// What others trained and collected, where it lies beside the repository; everything else is in the tree.

#include "buoy/context.h"
#include "buoy/generate.h"
#include "buoy/vocab.h"
#include "eval/dataset.h"
#include "io/gguf-file.h"
#include "io/safetensors.h"
#include "support/cli.h"
#include "support/converted.h"
#include "support/llama-run.h"
#include "support/paths.h"
#include "support/random-context.h"
#include "support/skip.h"

#include <doctest/doctest.h>

using namespace buoy;
using namespace buoy::test;

namespace {

bool no_data() {
    if (shared_dir().empty()) {
        skip("no shared/data beside the repository");
        return true;
    }
    return false;
}

} // namespace

TEST_CASE("a trained model continues a story as libllama does") {
    if (no_data()) {
        return;
    }
    TestModel model;
    model.path            = converted_oracle("tinystories-656k", "f32");
    const Vocab    vocab  = Vocab::load(model.path);
    const auto     prompt = vocab.encode("Once upon a time", true, false);
    GenerateParams params;
    params.n_predict      = 64;
    ContextParams context = exact_params();
    const auto    ours    = generate(*load_context(model, context), prompt, params);
    const auto    theirs  = generate(*load_llama_context(model, context), prompt, params);
    CHECK(ours.tokens == theirs.tokens);
    const std::string text = vocab.decode(ours.tokens);
    CHECK(text.find("little girl named") != std::string::npos); // fluent TinyStories English, not token salad
    // the fast path may round differently, but not change what a trained model says in its first sentence
    const auto fast = vocab.decode(generate(*load_context(model, {}), prompt, params).tokens);
    CHECK(fast.substr(0, 40) == text.substr(0, 40));
}

TEST_CASE("tied weights stored under the head's name, Llama-2 style tokenizer") {
    if (no_data()) {
        return;
    }
    const std::string path = converted_oracle("tinystories-656k");
    const GgufFile    file = GgufFile::open(path);
    CHECK(file.require_string("tokenizer.ggml.model") == "llama");
    CHECK(file.find_tensor("output.weight") == nullptr);
    const Safetensors         source = Safetensors::open_dir(oracle_dir("tinystories-656k"));
    const SafetensorsTensor * head   = source.find("lm_head.weight");
    REQUIRE(head != nullptr);
    std::vector<float> stored(static_cast<size_t>(head->n_elements()));
    source.read(*head, 0, stored.data(), stored.size() * sizeof(float));
    CHECK(floats(file, "token_embd.weight") == stored);
    const std::string text = llama_greedy_text(path, "Once upon a time", 60);
    CHECK(text.find(", a little girl named Lily lived in a small house with her mom") == 0);
}

TEST_CASE("questions that others collected are read") {
    if (no_data()) {
        return;
    }
    const QaDataset nq = load_dataset(shared_dir() + "/data/nq-open-oracle.jsonl.gz");
    CHECK(nq.items.size() == 2655);
    CHECK(nq.items[0].answers == std::vector<std::string>{"Wilhelm Conrad R\xC3\xB6ntgen"});
    CHECK(nq.items[0].passages.at(0).gold);
    const QaDataset hotpot = load_dataset(shared_dir() + "/data/hotpotqa_distractor_100.jsonl");
    CHECK(hotpot.items.size() == 100);
    CHECK(hotpot.items[0].passages.size() == 10);
}

TEST_CASE("questions that others collected are evaluated") {
    if (no_data()) {
        return;
    }
    const std::string dir = temp_dir();
    for (const char * name : {"nq-open-oracle.jsonl.gz", "hotpotqa_distractor_100.jsonl"}) {
        ProgramSpec spec;
        spec.name                  = "llama-diffusion-eval";
        spec.args                  = {"qa",
                                      "-m",
                                      "buoy-mdm,buoy-arm",
                                      "-d",
                                      shared_dir() + "/data/" + name,
                                      "-o",
                                      dir + "/" + name,
                                      "-n",
                                      "4",
                                      "--limit",
                                      "2",
                                      "--noise",
                                      "2",
                                      "--gold-position",
                                      "2",
                                      "--csv"};
        spec.env                   = {{"LLAMA_ARG_THREADS", "1"}};
        const ProgramResult result = run_program(spec);
        CAPTURE(result.err);
        CHECK(result.code == 0);
        CHECK(result.out.find("buoy-arm,,gold-position=2,2,") != std::string::npos);
    }
}
