// The bundled twins on held-out questions and stories: accuracy, grammar, what approximations and quantisation cost, determinism.

#include "buoy/bundled.h"
#include "buoy/generate.h"
#include "buoy/vocab.h"
#include "convert.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/random-context.h"

#include <doctest/doctest.h>
#include <llama.h>

#include <fstream>
#include <regex>

using namespace buoy;
using namespace buoy::test;

namespace {

constexpr size_t few = 60; // where every sample is run several times

struct Sample {
    std::string prompt;
    std::string answer;
};

const std::vector<Sample> & held_out() {
    static const std::vector<Sample> samples = [] {
        std::vector<Sample> read;
        std::ifstream       file(source_dir() + "/models/heldout-200.jsonl");
        for (std::string line; std::getline(file, line);) {
            const auto json = nlohmann::json::parse(line);
            read.push_back({json["prompt"], json["answer"]});
        }
        return read;
    }();
    return samples;
}

GenerateParams answer_params() {
    GenerateParams params;
    params.n_predict = 16;
    return params;
}

// A model with its tokenizer, ready to answer.
class Twin {
public:
    explicit Twin(const std::string & path, int32_t n_threads = 1) : vocab_(Vocab::load(path)) {
        TestModel     model;
        ContextParams context;
        model.path        = path;
        context.n_ctx     = 512;
        context.n_threads = n_threads;
        context_          = load_context(model, context);
    }

    Generation run(const std::string & prompt, GenerateParams params = answer_params()) const {
        params.end_ids = vocab_.end_ids();
        return generate(*context_, vocab_.encode_chat({{"user", prompt}}, true), params);
    }

    std::string text(const std::string & prompt, const GenerateParams & params) const {
        return vocab_.decode(run(prompt, params).tokens);
    }

    std::vector<std::string> answers(size_t n_samples, const GenerateParams & params = answer_params()) const {
        std::vector<std::string> texts;
        for (size_t i = 0; i < n_samples; i++) {
            texts.push_back(text(held_out().at(i).prompt, params));
        }
        return texts;
    }

private:
    Vocab                    vocab_;
    std::unique_ptr<Context> context_;
};

double accuracy(const std::vector<std::string> & answers) {
    size_t n_right = 0;
    for (size_t i = 0; i < answers.size(); i++) {
        n_right += answers[i] == held_out()[i].answer ? 1 : 0;
    }
    return static_cast<double>(n_right) / static_cast<double>(answers.size());
}

double agreement(const std::vector<std::string> & a, const std::vector<std::string> & b) {
    size_t n_same = 0;
    for (size_t i = 0; i < a.size(); i++) {
        n_same += a[i] == b[i] ? 1 : 0;
    }
    return static_cast<double>(n_same) / static_cast<double>(a.size());
}

GenerateParams fast_params(DiffusionCache cache) {
    GenerateParams params = answer_params();
    params.threshold      = 0.9f;
    params.cache          = cache;
    params.block_length   = 8;
    return params;
}

// The stories of all held-out requests that are made of sentences the corpus has, in their order.
size_t grammatical_stories(const Twin & twin, const GenerateParams & params) {
    const auto  json = nlohmann::json::parse(read_file(source_dir() + "/models/heldout-stories.json"));
    std::string story;
    for (const std::string pattern : json["sentences"]) {
        story += (story.empty() ? "(?:" : " (?:") + pattern + ")";
    }
    const std::regex known(story);
    size_t           n_right = 0;
    for (const std::string request : json["requests"]) {
        const std::string text  = twin.text(request, params);
        const bool        right = std::regex_match(text, known);
        n_right += right ? 1 : 0;
        if (!right) {
            MESSAGE("not grammatical: " << text);
        }
    }
    return n_right;
}

std::string quantised(const std::string & path, llama_ftype type) {
    const std::string           out    = temp_dir() + "/quantised.gguf";
    llama_model_quantize_params params = llama_model_quantize_default_params();
    params.ftype                       = type;
    params.nthread                     = 1;
    REQUIRE(llama_model_quantize(path.c_str(), out.c_str(), &params) == 0);
    return out;
}

std::string converted(OutType type) {
    ConvertParams params;
    params.input   = source_dir() + "/models/hf/buoy-mdm";
    params.output  = temp_dir() + "/buoy-mdm.gguf";
    params.outtype = type;
    convert_hf(params);
    return params.output;
}

} // namespace

TEST_CASE("both twins answer from the passages") {
    REQUIRE(held_out().size() == 200);
    for (const std::string name : {bundled_diffusion_model, bundled_autoregressive_model}) {
        CAPTURE(name);
        const double right = accuracy(Twin(find_model(name)).answers(held_out().size()));
        MESSAGE(name << ": " << right);
        CHECK(right >= 0.9);
    }
}

TEST_CASE("a threshold and the caches cost little") {
    const Twin                     twin(find_model(bundled_diffusion_model));
    const std::vector<std::string> exact = twin.answers(held_out().size());
    for (const DiffusionCache cache : {DiffusionCache::none, DiffusionCache::prefix, DiffusionCache::dual}) {
        const std::vector<std::string> fast = twin.answers(held_out().size(), fast_params(cache));
        MESSAGE("cache " << static_cast<int>(cache) << ": accuracy " << accuracy(fast) << ", agreement "
                         << agreement(exact, fast));
        CHECK(accuracy(fast) >= 0.85);
        CHECK(agreement(exact, fast) >= 0.85);
    }
}

TEST_CASE("a threshold writes several tokens a pass") {
    const Twin twin(find_model(bundled_diffusion_model));
    int64_t    n_exact = 0, n_fast = 0;
    for (size_t i = 0; i < 20; i++) {
        n_exact += twin.run(held_out()[i].prompt).n_forward;
        n_fast += twin.run(held_out()[i].prompt, fast_params(DiffusionCache::none)).n_forward;
    }
    CHECK(2 * n_fast < n_exact);
}

TEST_CASE("a longer canvas and other blocks give the same answers") {
    const Twin                     twin(find_model(bundled_diffusion_model));
    const std::vector<std::string> exact = twin.answers(few);
    for (const auto & [n_predict, block_length] : {std::pair(16, 8), std::pair(32, 32), std::pair(32, 8)}) {
        CAPTURE(n_predict);
        CAPTURE(block_length);
        GenerateParams params;
        params.n_predict    = n_predict;
        params.block_length = block_length;
        CHECK(agreement(exact, twin.answers(few, params)) >= 0.85);
    }
}

// A bar for these 20 requests alone, with room for processors that round differently; models/README.md has 100 others
TEST_CASE("both twins tell grammatical stories") {
    GenerateParams params;
    params.n_predict = 64;
    CHECK(grammatical_stories(Twin(find_model(bundled_autoregressive_model)), params) >= 16);
    const Twin twin(find_model(bundled_diffusion_model));
    for (const int32_t block_length : {64, 8}) {
        CAPTURE(block_length);
        params.block_length = block_length;
        CHECK(grammatical_stories(twin, params) >= 16);
    }
}

TEST_CASE("quantised twins answer as the F32 file does") {
    const std::string              f32   = converted(OutType::f32);
    const std::vector<std::string> exact = Twin(f32).answers(few);
    CHECK(agreement(exact, Twin(find_model(bundled_diffusion_model)).answers(few)) >= 0.98);
    const double q8_0 = agreement(exact, Twin(converted(OutType::q8_0)).answers(few));
    MESSAGE("Q8_0: agreement " << q8_0);
    CHECK(q8_0 >= 0.95);
    // rows of 128 are too short for K-quants: libllama takes its fallback types there
    for (const llama_ftype type : {LLAMA_FTYPE_MOSTLY_Q4_0, LLAMA_FTYPE_MOSTLY_Q4_K_M}) {
        const std::vector<std::string> answers = Twin(quantised(f32, type)).answers(few);
        MESSAGE("type " << type << ": accuracy " << accuracy(answers) << ", agreement " << agreement(exact, answers));
        CHECK(agreement(exact, answers) >= 0.7);
    }
}

TEST_CASE("the bundled file is the conversion of the checkpoint beside it") {
    CHECK(read_file(converted(OutType::f16)) == read_file(find_model(bundled_diffusion_model)));
}

TEST_CASE("a seed gives the same text again, also with more threads") {
    GenerateParams params;
    params.n_predict   = 64;
    params.temperature = 1.0f;
    params.seed        = 7;
    for (const char * name : {bundled_diffusion_model, bundled_autoregressive_model}) {
        const std::string path  = find_model(name);
        const Generation  first = Twin(path).run("Tell a story about Mira and a fox.", params);
        CHECK(Twin(path).run("Tell a story about Mira and a fox.", params).sequence == first.sequence);
        CHECK(Twin(path, 2).run("Tell a story about Mira and a fox.", params).sequence == first.sequence);
    }
}
