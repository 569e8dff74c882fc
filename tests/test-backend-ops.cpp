// Every operation of the graphs we build, with the types it is used with, against what upstream's tables say of the backends that
// can't be run here. docs/backends.md shows the same.

#include "engine/ggml-context.h"
#include "engine/graph-splits.h"
#include "support/backend-table.h"
#include "support/hf-dir.h"
#include "support/oracle.h"
#include "support/paths.h"
#include "support/random-context.h"
#include "support/skip.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

using namespace buoy;
using namespace buoy::test;

namespace {

using Uses = std::set<OpUse>;

constexpr int32_t n_tokens = 40;

// The backends' graphs are those without our own CPU kernels.
std::unique_ptr<Context> plain_engine(const RandomModel & model, const ContextParams & params) {
    static std::map<std::string, std::string> made;
    std::string &                             path = made[model.arch + model.type];
    TestModel                                 where;
    where.path       = path.empty() ? path = random_gguf(model) : path;
    where.kernels    = Kernels::ggml;
    where.use_repack = false;
    return load_context(where, params);
}

RandomModel model_of(const std::string & arch, const std::string & type = "f32") {
    RandomModel model;
    model.arch         = arch;
    model.type         = type;
    model.n_embd       = 256; // a block of the K-quants
    model.n_head       = 2;
    model.n_head_kv    = arch == "llada" ? 2 : 1;
    model.head_dim     = 128; // as almost all of them have
    model.n_ff         = 256;
    model.n_ff_expert  = 256;
    model.block_length = arch == "sdar" || arch == "sdar_moe" || arch == "llada2" || arch == "fast-dllm-v2" ? 8 : 0;
    model.n_group      = arch == "llada2" ? 4 : 0;
    return model;
}

void collect(Context & context, const std::vector<ForwardRequest> & batch, Uses & uses) {
    auto & ours = dynamic_cast<GgmlContext &>(context);
    ours.forward(batch);
    for (int i = 0; i < ggml_graph_n_nodes(ours.graph()->cgraph()); i++) {
        const ggml_tensor * node = ggml_graph_node(ours.graph()->cgraph(), i);
        if (!is_view(node)) {
            uses.insert(op_use(node));
        }
    }
}

// A pass over everything, with all rows and with some, one that stores, a step against what is stored; and the summaries.
void collect_passes(Context & context, Uses & uses, std::vector<ForwardRequest> batch) {
    const auto collect_with = [&](KvUse kv) {
        for (ForwardRequest & request : batch) {
            request.kv = kv;
        }
        collect(context, batch, uses);
    };
    collect_with(KvUse::none);
    collect_with(KvUse::store);
    for (ForwardRequest & request : batch) {
        request.rows = {1, 7, 12};
    }
    collect_with(KvUse::store);
    collect_with(KvUse::none);
}

Uses ops_of(const RandomModel & model, const ContextParams & params,
            const std::function<void(ForwardRequest &)> & change, std::optional<float> guidance = {}) {
    const auto     context = plain_engine(model, params);
    const auto     tokens  = random_tokens(n_tokens, context->info().n_vocab);
    ForwardRequest request = whole_request(tokens);
    change(request);
    observer(request).sink = [](const TapEvent &) {};
    Uses                        uses;
    std::vector<ForwardRequest> batch = two_sequences(request, tokens, guidance);
    batch.resize(static_cast<size_t>(params.n_sequences));
    collect_passes(*context, uses, batch);
    return uses;
}

void add(Uses & to, const Uses & more) { to.insert(more.begin(), more.end()); }

ContextParams way(FlashAttention flash, KvType type) {
    ContextParams params;
    params.flash  = flash;
    params.type_k = params.type_v = type;
    return params;
}

// The exact way and the fast one.
std::vector<ContextParams> two_ways() {
    return {way(FlashAttention::off, KvType::f32), way(FlashAttention::on, KvType::f16)};
}

std::vector<ContextParams> all_ways() {
    std::vector<ContextParams> ways;
    for (FlashAttention flash : {FlashAttention::off, FlashAttention::on}) {
        for (KvType type : {KvType::f32, KvType::f16, KvType::q8_0}) {
            ways.push_back(way(flash, type));
        }
    }
    return ways;
}

void logits(ForwardRequest &) {}

// What a row of the table in the docs is about, and the operations it adds to those of a plain pass.
struct Feature {
    const char *                          name;
    std::function<void(ForwardRequest &)> change;
};

std::function<void(ForwardRequest &)> tap(Tap kind, TapReduce reduce = TapReduce::none) {
    return [kind, reduce](ForwardRequest & request) {
        observer(request).taps = {{kind, 0, reduce}, {kind, 1, reduce}};
        if (reduce == TapReduce::regions) {
            observer(request).selection.regions = {{0, 1, 2}, {3, 4, 9}};
        }
    };
}

std::vector<Feature> features() {
    return {
        {"summaries of rows", [](ForwardRequest & r) { r.output = OutputKind::summary; }},
        {"`scores`", tap(Tap::attn_scores)},
        {"`pattern`", tap(Tap::pattern)},
        {"`pattern`, `heads`", tap(Tap::pattern, TapReduce::heads)},
        {"`pattern`, `received`", tap(Tap::pattern, TapReduce::received)},
        {"`pattern`, `regions`", tap(Tap::pattern, TapReduce::regions)},
        {"a selection of heads and rows",
         [](ForwardRequest & r) {
             tap(Tap::pattern)(r);
             observer(r).selection.heads = {1};
             observer(r).selection.rows  = {1, 7};
         }},
        {"`q`", tap(Tap::rot_q)},
        {"`k`", tap(Tap::rot_k)},
        {"`v`", tap(Tap::v)},
        {"`resid`", tap(Tap::resid_post)},
        {"edits",
         [](ForwardRequest & r) {
             r.edits = {{1, {}, {}, {2, 3}, -1.0f}};
         }},
        {"edits by head",
         [](ForwardRequest & r) {
             r.edits = {{1, {0}, {}, {2, 3}, -1.0f}};
         }},
        {"edits found while the pass runs",
         [](ForwardRequest & r) {
             observer(r).probed = {0, 1};
             observer(r).probe  = [](int32_t, const std::vector<int32_t> &, const float *) {
                 return std::vector<AttentionEdit>{};
             };
         }},
    };
}

const char * const architectures[] = {"llada",  "dream",        "llada-moe", "rnd1",  "sdar",  "sdar_moe",
                                      "llada2", "fast-dllm-v2", "llama",     "qwen2", "qwen3", "qwen3moe"};
const char * const weight_types[]  = {"f32",  "f16",  "bf16", "q8_0", "q4_0", "q4_1",   "q5_0",
                                      "q5_1", "q3_K", "q4_K", "q5_K", "q6_K", "iq4_xs", "iq4_nl"};

struct Row {
    std::string name;
    Uses        uses;
};

bool has_experts(const std::string & arch) {
    return arch == "llada-moe" || arch == "rnd1" || arch == "sdar_moe" || arch == "llada2" || arch == "qwen3moe";
}

std::vector<Row> all_rows() {
    Uses plain, moe, cfg;
    for (const char * arch : architectures) {
        for (const ContextParams & params : two_ways()) {
            add(has_experts(arch) ? moe : plain, ops_of(model_of(arch), params, logits));
        }
    }
    for (const ContextParams & params : all_ways()) {
        add(plain, ops_of(model_of("llada"), params, logits));
        add(plain, ops_of(model_of("sdar"), params, logits));
    }
    for (const char * type : weight_types) {
        add(plain, ops_of(model_of("llada", type), {}, logits));
        add(moe, ops_of(model_of("llada-moe", type), {}, logits));
    }
    // keys of a layer on a device, where attention is not fused
    plain.insert({"CPY", {"type_src=q8_0", "type_dst=f32"}});
    plain.insert({"CONT", {"type=f16"}});
    ContextParams two;
    two.n_sequences = 2;
    add(cfg, ops_of(
                 model_of("llada"), two, [](ForwardRequest &) {}, 1.0f));
    std::vector<Row> rows = {{"every pass", plain}, {"mixtures of experts", moe}, {"guidance", cfg}};
    for (const Feature & feature : features()) {
        Uses uses;
        for (const ContextParams & params : two_ways()) {
            add(uses, ops_of(model_of("llada"), params, feature.change));
            add(uses, ops_of(model_of("sdar"), params, feature.change));
        }
        rows.push_back({feature.name, uses});
    }
    for (size_t i = 1; i < rows.size(); i++) { // what comes on top of a plain pass
        for (const OpUse & use : plain) {
            rows[i].uses.erase(use);
        }
    }
    return rows;
}

// Where a table does not say yes, and why that is no harm.
struct Exception {
    const char * backend;
    const char * use; // its text begins with that
    const char * docs;
};

const char * const cuda_newer =
    "CUDA's table is older than the pinned source, which also has `GET_ROWS` of K-quants and IQ4, "
    "`PAD` of strided rows and `TOP_K`.";

const Exception exceptions[] = {
    {"CUDA", "GET_ROWS type=", cuda_newer},
    {"CUDA", "PAD type=f32", cuda_newer},
    {"CUDA", "TOP_K type=f32", cuda_newer},
    {"Vulkan", "MUL_MAT type_a=q8_0 type_b=f32 nr=[1,1] per=[0,2,1,3]", "Vulkan has no `MUL_MAT` of strided Q8_0"},
};

const char * const backends[] = {"CUDA", "Metal", "Vulkan"};

std::string table_line(const Row & row) {
    std::set<std::string> names;
    for (const OpUse & use : row.uses) {
        names.insert(use.op);
    }
    std::string list;
    for (const std::string & name : names) {
        list += (list.empty() ? "`" : ", `") + name + "`";
    }
    return "| " + row.name + " | " + (list.empty() ? "nothing" : list) + " |\n";
}

} // namespace

TEST_CASE("the backends have every operation we use, and the docs say which") {
    const std::string tree = llama_cpp_dir();
    if (tree.empty()) {
        skip("the pinned llama.cpp is not on this machine");
        return;
    }
    const std::vector<Row> rows = all_rows();
    const std::string      docs = read_file(source_dir() + "/docs/backends.md");
    std::set<const char *> needed; // exceptions, by their use
    for (const char * backend : backends) {
        const BackendTable table(tree + "/docs/ops/" + backend + ".csv");
        for (const Row & row : rows) {
            for (const OpUse & use : row.uses) {
                const BackendTable::Answer answer = table.ask(use);
                const auto known = std::find_if(std::begin(exceptions), std::end(exceptions), [&](const Exception & e) {
                    return std::string(backend) == e.backend && use.text().rfind(e.use, 0) == 0;
                });
                if (known != std::end(exceptions) && answer.n_yes == 0) {
                    needed.insert(known->use);
                    continue;
                }
                CAPTURE(row.name);
                CAPTURE(std::string(backend) + " " + use.text());
                CHECK(answer.n_yes > 0);
                CHECK(answer.n_no == 0);
            }
        }
    }
    for (const Exception & exception : exceptions) {
        CAPTURE(std::string(exception.use));
        CHECK(needed.count(exception.use) == 1);
        CHECK(docs.find(exception.docs) != std::string::npos);
    }
    for (const Row & row : rows) {
        const std::string line = table_line(row);
        CAPTURE(line);
        CHECK(docs.find(line) != std::string::npos);
    }
}
