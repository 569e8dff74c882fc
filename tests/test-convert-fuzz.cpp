#include "convert.h"

#include "buoy/error.h"
#include "io/safetensors.h"
#include "support/fuzz.h"
#include "support/hf-dir.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <random>

using namespace buoy;
using namespace buoy::test;

// Seeded, so that a failure repeats. BUOY_FUZZ_N mutations of each kind search further than CI does. The claim: an Error or success, never a crash or a hang, whatever the bytes.

namespace {

std::string mutated(const std::string & text, std::minstd_rand & random) {
    static const std::string interesting = "{}[]\",:0123456789-.eE\\ntfu \xff";

    std::string out  = text;
    const auto  pick = [&](size_t n) { return n == 0 ? 0 : static_cast<size_t>(random()) % n; };
    for (size_t i = 1 + pick(4); i > 0; --i) {
        const size_t at = pick(out.size());
        switch (random() % 5) {
            case 0: out[at] = static_cast<char>(random() & 0xff); break;
            case 1: out[at] = interesting[pick(interesting.size())]; break;
            case 2: out.erase(at, 1 + pick(16)); break;
            case 3: out.insert(at, out.substr(pick(out.size()), pick(32))); break;
            default: out.insert(at, 1, interesting[pick(interesting.size())]); break;
        }
        if (out.empty()) {
            out = "x";
        }
    }
    return out;
}

} // namespace

TEST_CASE("fuzz: safetensors headers") {
    const std::string path   = temp_dir() + "/model.safetensors";
    const std::string whole  = safetensors_bytes({{"a", {2, 2}, {1, 2, 3, 4}}, {"b", {3}, {5, 6, 7}, "BF16"}});
    const size_t      data   = 16 + 6;
    std::string       header = whole.substr(8, whole.size() - 8 - data);
    std::minstd_rand  random(1);
    uint64_t          n_good = 0;
    const uint64_t    n      = setting("BUOY_FUZZ_N", 20000);
    for (uint64_t i = 0; i < n; ++i) {
        // every fourth: the length and the data too
        const bool all = i % 4 == 0;
        write_file(path, all ? mutated(whole, random)
                             : safetensors_bytes(mutated(header, random), whole.substr(whole.size() - data)));
        try {
            const Safetensors file = Safetensors::open_file(path);
            for (const SafetensorsTensor & tensor : file.tensors()) {
                REQUIRE(tensor.size <= data + whole.size());
            }
            ++n_good;
        } catch (const Error &) {
        }
    }
    CHECK(n_good > 0);
    CHECK(n_good < n);
}

TEST_CASE("fuzz: config.json, tokenizer.json and tokenizer_config.json") {
    HfDir dir                             = tiny_checkpoint("LlamaForCausalLM");
    dir.tokenizer_config["chat_template"] = "{{ x }}";
    dir.config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 2.0}, {"original_max_position_embeddings", 64}};

    ConvertParams params;
    params.input     = dir.write();
    params.output    = temp_dir() + "/out.gguf";
    params.force     = true;
    params.n_threads = 1;

    std::minstd_rand random(2);
    uint64_t         n_good = 0;
    const uint64_t   n      = setting("BUOY_FUZZ_N", 300); // each that succeeds writes and syncs a file
    for (const char * name : {"/config.json", "/tokenizer.json", "/tokenizer_config.json"}) {
        const std::string good = read_file(params.input + name);
        for (uint64_t i = 0; i < n; ++i) {
            write_file(params.input + name, mutated(good, random));
            try {
                convert_hf(params);
                ++n_good;
            } catch (const Error &) {
            }
        }
        write_file(params.input + name, good);
    }
    CHECK(n_good > 0);
    CHECK(n_good < 3 * n);
}
