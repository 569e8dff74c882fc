// Files as they are found in the wild: fused Q/K/V, split in several, and a trained model.

#include "buoy/context.h"
#include "buoy/error.h"
#include "buoy/generate.h"
#include "buoy/vocab.h"
#include "support/converted.h"
#include "support/oracle.h"
#include "support/paths.h"
#include "support/random-context.h"

#include <doctest/doctest.h>
#include <ggml-cpp.h>

#include <algorithm>
#include <cstring>

using namespace buoy;
using namespace buoy::test;

namespace {

struct LoadedGguf {
    ggml_context_ptr data;
    gguf_context_ptr file;
};

LoadedGguf load_gguf(const std::string & path) {
    ggml_context * data = nullptr;
    LoadedGguf     loaded;
    loaded.file.reset(gguf_init_from_file(path.c_str(), {false, &data}));
    loaded.data.reset(data);
    return loaded;
}

std::vector<float> logits_of(const std::string & path, const std::vector<int32_t> & tokens) {
    TestModel model;
    model.path = path;
    return load_context(model, exact_params())->forward(whole_request(tokens)).logits;
}

} // namespace

TEST_CASE("a fused Q/K/V matrix is the same as three") {
    RandomModel model;
    model.arch               = "qwen2"; // has biases too
    model.n_head_kv          = 2;
    const std::string path   = random_gguf(model);
    const LoadedGguf  source = load_gguf(path);
    gguf_context_ptr  fused{gguf_init_empty()};
    gguf_set_kv(fused.get(), source.file.get());
    ggml_context_ptr owner{ggml_init({1 << 20, nullptr, false})};
    for (ggml_tensor * t = ggml_get_first_tensor(source.data.get()); t != nullptr;
         t               = ggml_get_next_tensor(source.data.get(), t)) {
        const std::string name = t->name;
        const auto        at   = name.find(".attn_q.");
        if (at == std::string::npos) {
            if (name.find(".attn_k.") == std::string::npos && name.find(".attn_v.") == std::string::npos) {
                gguf_add_tensor(fused.get(), t);
            }
            continue;
        }
        const auto part = [&](const char * which) {
            return ggml_get_tensor(source.data.get(), (name.substr(0, at) + which + name.substr(at + 8)).c_str());
        };
        ggml_tensor * k     = part(".attn_k.");
        ggml_tensor * v     = part(".attn_v.");
        const bool    bias  = ggml_n_dims(t) == 1;
        ggml_tensor * whole = bias ? ggml_new_tensor_1d(owner.get(), t->type, t->ne[0] + k->ne[0] + v->ne[0])
                                   : ggml_new_tensor_2d(owner.get(), t->type, t->ne[0], t->ne[1] + k->ne[1] + v->ne[1]);
        ggml_set_name(whole, (name.substr(0, at) + ".attn_qkv." + name.substr(at + 8)).c_str());
        auto * to = static_cast<uint8_t *>(whole->data);
        for (const ggml_tensor * p : {static_cast<const ggml_tensor *>(t), static_cast<const ggml_tensor *>(k),
                                      static_cast<const ggml_tensor *>(v)}) {
            std::memcpy(to, p->data, ggml_nbytes(p));
            to += ggml_nbytes(p);
        }
        gguf_add_tensor(fused.get(), whole);
    }
    const std::string fused_path = temp_dir() + "/fused.gguf";
    REQUIRE(gguf_write_to_file(fused.get(), fused_path.c_str(), false));
    const auto tokens = random_tokens(20, 256);
    CHECK(logits_of(fused_path, tokens) == logits_of(path, tokens));
}

TEST_CASE("a model split over files is the same as one") {
    const std::string path   = random_gguf({});
    const LoadedGguf  source = load_gguf(path);
    const std::string dir    = temp_dir();
    constexpr int     n      = 3;
    const int64_t     count  = gguf_get_n_tensors(source.file.get());
    std::string       last;
    for (int no = 0; no < n; no++) {
        gguf_context_ptr part{gguf_init_empty()};
        if (no == 0) {
            gguf_set_kv(part.get(), source.file.get());
        }
        gguf_set_val_u16(part.get(), "split.no", static_cast<uint16_t>(no));
        gguf_set_val_u16(part.get(), "split.count", n);
        gguf_set_val_i32(part.get(), "split.tensors.count", static_cast<int32_t>(count));
        for (int64_t i = no * count / n; i < (no + 1) * count / n; i++) {
            gguf_add_tensor(part.get(), ggml_get_tensor(source.data.get(), gguf_get_tensor_name(source.file.get(), i)));
        }
        last = dir + "/model-0000" + std::to_string(no + 1) + "-of-00003.gguf";
        REQUIRE(gguf_write_to_file(part.get(), last.c_str(), false));
    }
    const auto tokens = random_tokens(20, 256);
    CHECK(logits_of(dir + "/model-00001-of-00003.gguf", tokens) == logits_of(path, tokens));
    CHECK(logits_of(last, tokens) == logits_of(path, tokens));
}

TEST_CASE("loading tells how far it is after every tensor, and ends where nobody waits for it") {
    std::vector<float> told;
    TestModel          model;
    model.path     = random_gguf({});
    model.use_mmap = false;
    model.progress = [&](float done) {
        told.push_back(done);
        return true;
    };
    load_context(model, exact_params());
    CHECK(told.size() >= 20); // 2 layers of 9 tensors, embedding, norm and head
    CHECK(std::is_sorted(told.begin(), told.end()));
    CHECK(told.back() == 1.0f);

    model.progress = [](float done) { return done < 0.5f; };
    CHECK_THROWS_WITH_AS(load_context(model, exact_params()), (model.path + ": loading was cancelled").c_str(), Error);

    ContextParams params = exact_params();
    RandomModel   long_context;
    long_context.n_ctx = 8192;
    CHECK(random_context(long_context, params)->n_ctx() == 4096);
    params.n_ctx = -1;
    CHECK(random_context(long_context, params)->n_ctx() == 8192);
}
