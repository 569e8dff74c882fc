// Random damage to the header of a small model: loading and one forward pass either work or throw an Error.
// The seed is fixed, so a failure repeats; BUOY_FUZZ_COUNT and BUOY_FUZZ_SEED search further.

#include "buoy/context.h"
#include "buoy/error.h"
#include "support/fuzz.h"
#include "support/gguf-bytes.h"
#include "support/paths.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <array>
#include <fstream>
#include <iterator>

using namespace buoy;
using namespace buoy::test;

namespace {

GgufBytes seed_model(const std::string & arch) {
    RandomModel model;
    model.arch      = arch;
    model.n_vocab   = 261;
    model.n_embd    = 32;
    model.n_head    = 4;
    model.n_head_kv = 2;
    model.n_layer   = 1;
    if (arch == "llama") {
        model.rope_scaling = "yarn";
    }
    std::ifstream in(random_gguf(model), std::ios::binary);
    return parse_gguf({std::istreambuf_iterator<char>(in), {}});
}

// Sizes that a graph, a product or a 32-bit number may get wrong.
uint64_t edge_number(Random & random) {
    static constexpr std::array<uint64_t, 16> edges{0,  1,  2,   3,          4,          8,          16,         32,
                                                    64, 96, 261, 0x7fffffff, 0xffffffff, 1ull << 32, 1ull << 62, ~0ull};
    return edges[below(random, edges.size())];
}

double edge_float(Random & random) {
    static constexpr std::array<double, 9> edges{0.0, -0.0, 1.0, -1.0, 1e-40, 1e38, 1e300, -1e300, 1e-6};
    return edges[below(random, edges.size())];
}

// A number in place of a number keeps the file sound, so that the damage reaches the model.
void mutate_value(GgufBytes::Pair & pair, Random & random) {
    switch (pair.type) {
        case GGUF_TYPE_UINT32:
        case GGUF_TYPE_INT32: pair.value = le(static_cast<uint32_t>(edge_number(random))); break;
        case GGUF_TYPE_FLOAT32:
            pair.type  = GGUF_TYPE_FLOAT64;
            pair.value = le(edge_float(random));
            break;
        case GGUF_TYPE_BOOL: pair.value = le(static_cast<uint8_t>(below(random, 2))); break;
        default:
            if (!pair.value.empty()) {
                pair.value[below(random, pair.value.size())] = static_cast<char>(random());
            }
            break;
    }
}

void mutate_tensor(GgufBytes::Tensor & tensor, Random & random) {
    switch (below(random, 4)) {
        case 0: tensor.type = static_cast<uint32_t>(below(random, GGML_TYPE_COUNT + 1)); break;
        case 1: tensor.dims[below(random, tensor.dims.size())] = static_cast<int64_t>(edge_number(random)); break;
        case 2: tensor.name[below(random, tensor.name.size())] = static_cast<char>(random()); break;
        default:
            for (char & byte : tensor.data) { // any bits as weights: NaN, infinities, subnormals
                byte = static_cast<char>(random());
            }
            break;
    }
}

void mutate(GgufBytes & file, Random & random) {
    switch (below(random, 6)) {
        case 0: mutate_tensor(file.tensors[below(random, file.tensors.size())], random); break;
        case 1: file.erase_pair(std::string(file.pairs[below(random, file.pairs.size())].key)); break;
        case 2: file.pairs[below(random, file.pairs.size())].type = static_cast<uint32_t>(below(random, 14)); break;
        default: mutate_value(file.pairs[below(random, file.pairs.size())], random); break;
    }
}

// True if the model loaded and ran, false on an Error; everything else is a bug.
bool runs(const std::string & path) {
    try {
        TestModel model;
        model.path             = path;
        ContextParams args     = exact_params();
        args.n_ctx             = 16;
        args.n_threads         = 1;
        const auto     context = load_context(model, args);
        ForwardRequest request;
        request.tokens               = {0, 0, 0, 0};
        request.rows                 = {0, 3};
        request.output               = OutputKind::summary;
        request.kv                   = KvUse::store;
        const ForwardResult & result = context->forward(request);
        REQUIRE(result.summaries.size() == 2);
        for (const RowSummary & row : result.summaries) {
            REQUIRE(row.id >= 0);
            REQUIRE(row.id < context->info().n_vocab);
        }
        return true;
    } catch (const Error & error) {
        const std::string message = error.what();
        REQUIRE_FALSE(message.empty());
        REQUIRE(message.find('\n') == std::string::npos);
        return false;
    }
}

} // namespace

TEST_CASE("model fuzz: damaged models give an Error or run") {
    const std::array<GgufBytes, 3> seeds{seed_model("llada"), seed_model("llama"), seed_model("qwen3")};

    const uint64_t    count  = setting("BUOY_FUZZ_COUNT", 600);
    const uint64_t    seed   = setting("BUOY_FUZZ_SEED", 1);
    const std::string dir    = temp_dir();
    uint64_t          n_runs = 0;
    for (uint64_t i = 0; i < count; ++i) {
        CAPTURE(seed);
        CAPTURE(i);
        Random    random(seed << 32 | i); // a failing case runs alone by its number
        GgufBytes file = seeds[i % seeds.size()];
        for (uint64_t n = 1 + below(random, 3); n > 0; --n) {
            mutate(file, random);
        }
        std::string bytes = file.build();
        if (below(random, 4) == 0) {
            bytes[below(random, file.header().size())] = static_cast<char>(random());
        }
        n_runs += runs(write_file(dir, "fuzz.gguf", bytes)) ? 1 : 0;
    }
    MESSAGE(count, " models, ", n_runs, " of them still run");
    CHECK(n_runs > count / 20); // damage that is always noticed while loading would test no graph
    CHECK(n_runs < count);
}
