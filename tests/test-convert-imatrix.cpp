#include "calibrate.h"

#include "buoy/context.h"
#include "buoy/error.h"
#include "buoy/random-model.h"
#include "buoy/vocab.h"
#include "io/gguf-file.h"
#include "masked-text.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/random-context.h"
#include "support/run-program.h"
#include "text/llama-handles.h"

#include <doctest/doctest.h>
#include <llama.h>

#include <cmath>
#include <csignal>
#include <filesystem>

using namespace buoy;
using namespace buoy::test;

namespace {

constexpr const char * TEXT =
    "It was a bright cold day in April, and the clocks were striking thirteen. Nobody looked up; the wind blew dust.";

using Sums = std::map<std::string, std::vector<double>>;

// Sums of squares as libllama's own graph has them.
bool on_node(ggml_tensor * node, bool ask, void * data) {
    const std::string name   = node->src[0] != nullptr ? node->src[0]->name : "";
    const bool        wanted = (node->op == GGML_OP_MUL_MAT || node->op == GGML_OP_MUL_MAT_ID) &&
                        node->src[1]->type == GGML_TYPE_F32 && name.size() > 7 &&
                        name.compare(name.size() - 7, 7, ".weight") == 0;
    if (ask || !wanted) {
        return wanted;
    }
    const ggml_tensor * x    = node->src[1];
    auto &              sums = (*static_cast<Sums *>(data))[node->src[0]->name];
    const bool          ids  = node->op == GGML_OP_MUL_MAT_ID;
    const int64_t       n    = x->ne[0];
    sums.resize(static_cast<size_t>(ids ? n * node->src[0]->ne[2] : n));
    for (int64_t t = 0; t < x->ne[2]; ++t) {
        for (int64_t row = 0; row < (ids ? node->src[2]->ne[0] : x->ne[1]); ++row) {
            const int64_t i1     = ids ? row % x->ne[1] : row;
            int64_t       expert = 0;
            if (ids) {
                const char * at = static_cast<const char *>(node->src[2]->data);
                expert          = *reinterpret_cast<const int32_t *>(at + static_cast<size_t>(t) * node->src[2]->nb[1] +
                                                            static_cast<size_t>(row) * node->src[2]->nb[0]);
            }
            const auto * values =
                reinterpret_cast<const float *>(static_cast<const char *>(x->data) +
                                                static_cast<size_t>(i1) * x->nb[1] + static_cast<size_t>(t) * x->nb[2]);
            for (int64_t i = 0; i < n; ++i) {
                sums[static_cast<size_t>(expert * n + i)] += static_cast<double>(values[i]) * values[i];
            }
        }
    }
    return true;
}

Sums upstream_sums(const std::string & path, const std::vector<MaskedChunk> & chunks) {
    Sums                sums;
    const LlamaScope    scope;
    const LlamaModelPtr model(llama_model_load_from_file(path.c_str(), llama_model_default_params()));
    REQUIRE(model);
    llama_context_params params = llama_context_default_params();
    params.n_ctx                = 256;
    params.n_batch              = 256;
    params.n_ubatch             = 256;
    params.n_threads            = 1;
    params.n_threads_batch      = 1;
    params.flash_attn_type      = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.cb_eval              = on_node;
    params.cb_eval_user_data    = &sums;
    for (const MaskedChunk & chunk : chunks) {
        const LlamaContextPtr context(llama_init_from_model(model.get(), params));
        REQUIRE(context);
        sums.erase(""); // nothing of the warm-up has a name
        llama_batch batch = llama_batch_init(static_cast<int32_t>(chunk.tokens.size()), 0, 1);
        batch.n_tokens    = static_cast<int32_t>(chunk.tokens.size());
        for (size_t i = 0; i < chunk.tokens.size(); ++i) {
            batch.token[i]     = chunk.tokens[i];
            batch.pos[i]       = static_cast<int32_t>(i);
            batch.n_seq_id[i]  = 1;
            batch.seq_id[i][0] = 0;
            batch.logits[i]    = 1;
        }
        CHECK(llama_decode(context.get(), batch) == 0);
        llama_batch_free(batch);
    }
    return sums;
}

CalibrateParams params_for(const std::string & spec) {
    const std::string dir = temp_dir();
    write_random_model(parse_random_model(spec), dir + "/model.gguf");
    write_file(dir + "/text.txt", TEXT);
    CalibrateParams params;
    params.model     = dir + "/model.gguf";
    params.text      = dir + "/text.txt";
    params.output    = dir + "/imatrix.gguf";
    params.n_chunk   = 32;
    params.n_threads = 1;
    return params;
}

Traits traits_of(const std::string & path) {
    TestModel model;
    model.path = path;
    return load_context(model, ContextParams())->info().traits;
}

} // namespace

TEST_CASE("imatrix: the sums are those of libllama's graph over the same masked tokens") {
    for (const char * spec : {"llada:E=64,L=2,H=4,V=300", "dream:E=64,L=2,H=4,HKV=2,V=300", "llama:E=64,L=2,H=4,V=300",
                              "qwen3moe:E=64,L=2,H=4,HKV=2,X=4,U=2,FX=32,V=300"}) {
        INFO(spec);
        const CalibrateParams params = params_for(spec);
        const ImatrixReport   report = make_imatrix(params);
        const auto            tokens = Vocab::load(params.model).encode(TEXT, true, false);
        const auto            chunks = mask_text(tokens, traits_of(params.model), 32, 0, 1);
        CHECK(report.n_chunks == chunks.size());
        CHECK(report.n_tokens == 32 * chunks.size());

        const Sums     expected = upstream_sums(params.model, chunks);
        const GgufFile file     = GgufFile::open(params.output);
        CHECK(file.require_string("general.type") == "imatrix");
        CHECK(file.require_int("imatrix.chunk_count", 0, 1000) == static_cast<int64_t>(chunks.size()));
        CHECK(file.tensors().size() == 2 * report.n_tensors);
        CHECK(report.n_tensors == expected.size());
        for (const auto & [name, sums] : expected) {
            INFO(name);
            const GgufTensor * tensor = file.find_tensor(name + ".in_sum2");
            REQUIRE(tensor != nullptr);
            REQUIRE(tensor->size == sums.size() * sizeof(float));
            std::vector<float> found(sums.size());
            file.file(0).read(tensor->offset, found.data(), static_cast<size_t>(tensor->size));
            double error = 0;
            double total = 0;
            for (size_t i = 0; i < sums.size(); ++i) {
                error += (found[i] - sums[i]) * (found[i] - sums[i]);
                total += sums[i] * sums[i];
            }
            CHECK(error <= 1e-6 * total); // F16 K and V in one of the two
        }
    }
}

TEST_CASE("imatrix: masks are drawn by seed, at every ratio, and never where no row can answer") {
    std::vector<int32_t> tokens(6400);
    for (size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = static_cast<int32_t>(i % 200);
    }
    Traits traits;
    traits.attention  = AttentionKind::full;
    traits.mask_id    = 250;
    traits.shift      = true;
    const auto chunks = mask_text(tokens, traits, 64, 0, 3);
    CHECK(chunks.size() == 100);
    size_t few   = 0;
    size_t many  = 0;
    size_t total = 0;
    for (const MaskedChunk & chunk : chunks) {
        few += chunk.hidden.size() < 16 ? 1 : 0;
        many += chunk.hidden.size() > 48 ? 1 : 0;
        total += chunk.hidden.size();
        CHECK(chunk.tokens[0] != 250);
        for (size_t i = 0; i < chunk.hidden.size(); ++i) {
            CHECK(chunk.tokens[static_cast<size_t>(chunk.hidden[i])] == 250);
        }
    }
    CHECK(few > 10); // a quarter each is expected
    CHECK(many > 10);
    CHECK(std::abs(static_cast<double>(total) / 6400 - 0.5) < 0.1);
    CHECK(mask_text(tokens, traits, 64, 0, 3)[7].tokens == chunks[7].tokens);
    CHECK(mask_text(tokens, traits, 64, 0, 4)[7].tokens != chunks[7].tokens);
    CHECK(mask_text(tokens, traits, 64, 5, 3).size() == 5);
    CHECK(mask_text({1, 2, 3}, traits, 64, 0, 3).size() == 1);
}

TEST_CASE("loss: of prompts and answers only answers are hidden") {
    Traits traits;
    traits.attention        = AttentionKind::full;
    traits.mask_id          = 250;
    const MaskedChunk chunk = mask_answer(std::vector<int32_t>(100, 7), 60, traits, 1);
    CHECK_FALSE(chunk.hidden.empty());
    CHECK(chunk.hidden.front() >= 60);
    CHECK(chunk.tokens[59] == 7);

    CalibrateParams params = params_for("llada:E=64,L=1,H=4,V=300");
    params.n_chunk         = 64;
    params.text += ".jsonl";
    write_file(params.text, "{\"prompt\": \"one two\", \"answer\": \"three four five\"}\n");
    CHECK(measure_loss(params).n_hidden <= 15);
    write_file(params.text, "{\"prompt\": \"one two\"}\n");
    CHECK_THROWS_WITH_AS(measure_loss(params), doctest::Contains("without a prompt or an answer"), Error);
    write_file(params.text, "[]\n");
    CHECK_THROWS_AS(measure_loss(params), Error);
}

TEST_CASE("imatrix, loss: what can't be done is said") {
    CalibrateParams params = params_for("llada:E=64,L=1,H=4,V=300");
    CHECK(measure_loss(params).loss > std::log(300.0) - 2); // random weights know nothing
    params.text = "/no/such/file";
    CHECK_THROWS_AS(make_imatrix(params), Error);
    params = params_for("llada:E=64,L=1,H=4,V=300");
    write_file(params.text, "x");
    CHECK_THROWS_AS(make_imatrix(params), Error);
    CHECK_FALSE(GgufFile::open(params.model).tensors().empty());
}

TEST_CASE("imatrix, loss: a model file that shrinks while it is mapped is one line") {
    if (!std::filesystem::exists("/proc/self/maps")) {
        return;
    }
    const std::string text = temp_dir() + "/text.txt";
    write_file(text, std::string(20000, 'a'));
    for (const char * command : {"loss", "imatrix"}) {
        CAPTURE(command);
        RandomModel model;
        model.n_embd           = 256;
        model.n_layer          = 4;
        const std::string path = random_gguf(model);
        ProgramSpec       spec;
        spec.name = "llama-diffusion-convert";
        spec.args = {command, "-m", path, "-f", text, "-c", "64", "-t", "1"};
        if (std::string(command) == "imatrix") {
            spec.args.insert(spec.args.end(), {"-o", temp_dir() + "/out.gguf"});
        }
        const auto check = [](const ProgramResult & result) {
            CAPTURE(result.err);
            CHECK(result.code == 2);
            CHECK(result.is_one_line());
            CHECK(result.err.find("shrank") != std::string::npos);
        };
        Program struck(spec); // what the system sends where a page is gone
        REQUIRE(struck.await_handler(SIGBUS));
        REQUIRE(struck.await_mapping(path));
        struck.send(SIGBUS);
        check(struck.finish());

        Program program(spec);
        REQUIRE(program.await_mapping(path));
        std::filesystem::resize_file(path, 0);
        check(program.finish());
    }
}
