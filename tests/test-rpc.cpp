// Weights, K/V and taps on RPC servers: two processes on this machine's loopback stand for two devices.

#include "analysis/recording.h"
#include "buoy/bundled.h"
#include "buoy/device.h"
#include "buoy/error.h"
#include "buoy/generate.h"
#include "buoy/replay-case.h"
#include "buoy/vocab.h"
#include "support/batch.h"
#include "support/cli.h"
#include "support/converted.h"
#include "support/one-split.h"
#include "support/oracle.h"
#include "support/paths.h"
#include "support/random-context.h"
#include "support/rpc-servers.h"
#include "support/tap-log.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace buoy;
using namespace buoy::test;

namespace {

using Names = std::vector<std::string>;

constexpr int32_t all_layers = std::numeric_limits<int32_t>::max();

TestModel local(const std::string & path) {
    TestModel model;
    model.path    = path;
    model.devices = {"none"};
    model.kernels = Kernels::ggml; // the servers have ggml's only
    return model;
}

// Everything on two servers, half of the layers each.
TestModel on_servers(const std::string & path) {
    add_servers_once(2);
    TestModel model    = local(path);
    model.devices      = {"RPC0", "RPC1"};
    model.n_gpu_layers = all_layers;
    model.tensor_split = {1, 1};
    return model;
}

// Scores of dropped keys as a number that nothing else has.
std::vector<float> without_infinities(std::vector<float> values) {
    std::replace(values.begin(), values.end(), -INFINITY, -1e30f);
    return values;
}

RandomModel experts_model() {
    RandomModel model;
    model.arch    = "llada-moe";
    model.n_layer = 4;
    return model;
}

Generation run(const TestModel & model, const ContextParams & params, const std::string & prompt,
               GenerateParams generate_params) {
    const Vocab vocab       = Vocab::load(model.path);
    generate_params.end_ids = vocab.end_ids();
    return generate(*load_context(model, params), vocab.encode_chat({{"user", prompt}}, true), generate_params);
}

} // namespace

TEST_SUITE_BEGIN("RPC servers" * doctest::skip(!has_rpc_server()));

TEST_CASE("the server says what it exposes") {
    const std::string says = "it has no password and no encryption";
    CHECK(run_program({"llama-rpc-server", {"-d", "nothing"}, {}, {}, {}}).err.find(says) != std::string::npos);
    CHECK(run_program({"llama-rpc-server", {"--help"}, {}, {}, {}}).err.find(says) == std::string::npos);
}

TEST_CASE("servers are devices with memory") {
    add_servers_once(2);
    size_t n_servers = 0;
    for (const DeviceInfo & device : list_devices()) {
        if (device.name == "RPC0" || device.name == "RPC1") {
            n_servers++;
            CHECK(device.is_gpu);
            CHECK(device.memory_total > 0);
            CHECK(device.memory_free > 0);
            CHECK(device.description.rfind("127.0.0.1:", 0) == 0);
        }
    }
    CHECK(n_servers == 2);
}

TEST_CASE("two servers hold half of the layers each and give the same logits") {
    for (const char * arch : {"llada", "llada-moe", "qwen3"}) {
        CAPTURE(arch);
        RandomModel random;
        random.arch            = arch;
        random.n_layer         = 5;
        const std::string path = random_gguf(random);
        const auto        near = load_context(local(path), exact_alone());
        const auto        far  = load_context(on_servers(path), exact_alone());
        for (const char * layer : {"blk.0.", "blk.1.", "blk.2."}) {
            CHECK(devices_of(*far, layer) == Names{"RPC0"});
        }
        for (const char * layer : {"blk.3.", "blk.4.", "output_norm"}) {
            CHECK(devices_of(*far, layer) == Names{"RPC1"});
        }
        const ForwardRequest request = whole_request(random_tokens(24, 320));
        CHECK(far->forward(request).logits == near->forward(request).logits);
        CHECK(far->graph_splits().size() == 2);

        ForwardRequest stored = request;
        stored.kv             = KvUse::store;
        CHECK(nmse(far->forward(stored).logits, near->forward(stored).logits) <= 1e-12);
        CHECK(far->stats().kv_bytes == near->stats().kv_bytes);
    }
}

TEST_CASE("with everything on one server a decoding step is one split") {
    for (const char * arch : {"llada", "llada-moe", "qwen3"}) {
        CAPTURE(arch);
        RandomModel random;
        random.arch        = arch;
        TestModel model    = on_servers(random_gguf(random));
        model.devices      = {"RPC0"};
        model.tensor_split = {};
        ContextParams params; // with flash attention and F16
        params.n_threads   = 1;
        const auto context = load_context(model, params);
        check_one_split(*context, "RPC0");
        CHECK(devices_of(*context, "") == Names{"RPC0"});
    }
}

TEST_CASE("-ngl, --main-gpu, --tensor-split and -ot decide where weights are") {
    const std::string path   = random_gguf(experts_model());
    const auto        placed = [&](const auto & change) {
        TestModel model = on_servers(path);
        change(model);
        return load_context(model, exact_alone());
    };
    auto context = placed([](TestModel & m) { m.n_gpu_layers = 3; }); // the head and the last two layers
    CHECK(devices_of(*context, "token_embd") == Names{"CPU"});
    CHECK(devices_of(*context, "blk.1.") == Names{"CPU"});
    CHECK(devices_of(*context, "blk.2.") == Names{"RPC0"});
    CHECK(devices_of(*context, "output_norm") == Names{"RPC1"});

    context = placed([](TestModel & m) { m.n_gpu_layers = 0; });
    CHECK(devices_of(*context, "") == Names{"CPU"});

    context = placed([](TestModel & m) { m.n_gpu_layers = -1; }); // little fits always
    CHECK(devices_of(*context, "") == Names{"RPC0", "RPC1"});

    context = placed([](TestModel & m) { m.main_gpu = 1; });
    CHECK(devices_of(*context, "") == Names{"RPC1"});

    context = placed([](TestModel & m) { m.tensor_split = {1, 4}; });
    CHECK(devices_of(*context, "blk.0.") == Names{"RPC0"});
    CHECK(devices_of(*context, "blk.1.") == Names{"RPC1"});

    context = placed([](TestModel & m) { m.devices = {"RPC1", "RPC0"}; });
    CHECK(devices_of(*context, "blk.0.") == Names{"RPC1"});

    // the first that finds a name counts
    context = placed([](TestModel & m) {
        m.overrides = {{"blk\\.[01]\\.attn_q\\.", "CPU"}, {"attn_q", "RPC1"}, {"token_embd", "CPU"}};
    });
    CHECK(devices_of(*context, "blk.0.attn_q.") == Names{"CPU"});
    CHECK(devices_of(*context, "blk.2.attn_q.") == Names{"RPC1"});
    CHECK(devices_of(*context, "blk.0.attn_k.") == Names{"RPC0"});
    CHECK(devices_of(*context, "token_embd") == Names{"CPU"});
}

TEST_CASE("experts kept on the CPU are computed there") {
    const std::string    path    = random_gguf(experts_model());
    const ForwardRequest request = whole_request(random_tokens(40, 320));
    const auto           near    = load_context(local(path), exact_alone());
    TestModel            model   = on_servers(path);
    model.devices                = {"RPC0"};
    model.tensor_split           = {};
    model.n_cpu_moe              = 2;
    const auto context           = load_context(model, exact_alone());
    for (const char * part : {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}) {
        CHECK(devices_of(*context, "blk.0." + std::string(part)) == Names{"CPU"});
        CHECK(devices_of(*context, "blk.1." + std::string(part)) == Names{"CPU"});
        CHECK(devices_of(*context, "blk.2." + std::string(part)) == Names{"RPC0"});
    }
    CHECK(devices_of(*context, "ffn_gate_inp") == Names{"RPC0"});
    CHECK(nmse(context->forward(request).logits, near->forward(request).logits) <= 1e-12);
    int32_t n_on_cpu = 0, n_visits = 0;
    for (const GraphSplit & split : context->graph_splits()) {
        n_visits += split.device == "CPU" ? 1 : 0;
        n_on_cpu += split.device == "CPU" ? split.n_nodes : 0;
    }
    CHECK(n_visits == 2);           // one for each of the layers
    CHECK(n_on_cpu >= 2 * (3 + 1)); // three products and what lies between them
}

TEST_CASE("long passes, which are built in pieces, cross devices") {
    const std::string    path    = random_gguf(experts_model());
    const ForwardRequest request = whole_request(random_tokens(600, 320));
    const auto           near    = load_context(local(path), exact_alone());
    const auto           check   = [&](TestModel model) {
        const auto     far    = load_context(model, exact_alone());
        ForwardRequest stored = request;
        stored.kv             = KvUse::store;
        CHECK(nmse(far->forward(request).logits, near->forward(request).logits) <= 1e-12);
        CHECK(nmse(far->forward(stored).logits, near->forward(stored).logits) <= 1e-12);
    };
    TestModel model = on_servers(path);
    check(model);
    model.n_gpu_layers = 3;
    check(model);
    model.n_cpu_moe = 3;
    check(model);
}

TEST_CASE("K/V is where a layer's attention is computed") {
    RandomModel random;
    random.n_layer         = 2;
    TestModel model        = on_servers(random_gguf(random));
    model.overrides        = {{"blk\\.0\\.attn_", "CPU"}};
    const auto     context = load_context(model, exact_alone());
    ForwardRequest request = whole_request(random_tokens(8, 320));
    request.kv             = KvUse::store;
    const auto near        = load_context(local(model.path), exact_alone());
    CHECK(nmse(context->forward(request).logits, near->forward(request).logits) <= 1e-12);
    // embedding there, attention here, the rest there: what is stored never travels
    Names route;
    for (const GraphSplit & split : context->graph_splits()) {
        route.push_back(split.device);
    }
    CHECK(route == Names{"RPC0", "CPU", "RPC0", "RPC1"});
}

TEST_CASE("the oracle's tokens come from two servers, with every cache") {
    const Oracle               oracle("llada");
    const std::string          path   = converted_oracle("llada");
    const nlohmann::json &     c      = oracle.expected["cases"][0];
    const std::vector<int32_t> prompt = c["prompt_ids"];
    GenerateParams             params;
    params.n_predict    = c["settings"]["gen_length"];
    params.steps        = c["settings"]["steps"];
    params.block_length = c["settings"]["block_length"];
    const auto near     = load_context(local(path), exact_alone());
    const auto far      = load_context(on_servers(path), exact_alone());
    CHECK(generate(*far, prompt, params).sequence == c["output_ids"].get<std::vector<int32_t>>());
    for (DiffusionCache cache : {DiffusionCache::prefix, DiffusionCache::dual}) {
        params.cache = cache;
        CHECK(generate(*far, prompt, params).tokens == generate(*near, prompt, params).tokens);
    }
}

TEST_CASE("the newer families write their authors' tokens from two servers") {
    for (const char * name : {"illada", "stable-diffcoder", "nemotron-labs-diffusion"}) {
        const Oracle  oracle(name);
        ContextParams context = exact_alone();
        context.n_ctx         = 64;
        for (const nlohmann::json & c : oracle.expected["cases"]) {
            const std::string id = c["id"];
            CAPTURE(id);
            const ReplayCase replay = load_case(oracle.dir + "/expected.json:" + id);
            TestModel        model  = on_servers(converted_oracle(name, "f32"));
            model.mode              = replay.mode;
            const auto far          = load_context(model, context);
            CHECK(generate(*far, replay.prompt, replay.params).sequence == c["output_ids"].get<std::vector<int32_t>>());
        }
    }
}

TEST_CASE("the twins write the same text") {
    const std::string prompt = "Sara has the ball. Who has the ball?";
    GenerateParams    params;
    params.n_predict = 16;
    for (const char * name : {bundled_diffusion_model, bundled_autoregressive_model}) {
        CAPTURE(name);
        const std::string path = find_model(name);
        ContextParams     context;
        context.n_ctx     = 128;
        context.n_threads = 1;
        CHECK(run(on_servers(path), context, prompt, params).tokens ==
              run(local(path), context, prompt, params).tokens);
    }
}

TEST_CASE("a batch of sequences equals single passes there, too") {
    for (const RandomModel & model : attention_kinds()) {
        CAPTURE(model.arch);
        const TestModel there = on_servers(random_gguf(model));
        check_batch(*load_context(there, many_sequences()), *load_context(there, many_sequences()));
    }
}

TEST_CASE("taps and edits are the same from there") {
    RandomModel random;
    random.n_layer         = 4;
    const std::string path = random_gguf(random);
    const auto        near = load_context(local(path), exact_alone());
    const auto        far  = load_context(on_servers(path), exact_alone());

    std::vector<TapPoint> taps;
    for (int32_t layer : {0, 3}) {
        for (Tap tap : {Tap::attn_scores, Tap::pattern, Tap::rot_q, Tap::rot_k, Tap::v, Tap::resid_post}) {
            taps.push_back({tap, layer});
        }
    }
    taps.push_back({Tap::pattern, 1, TapReduce::heads});
    taps.push_back({Tap::pattern, 2, TapReduce::received});
    for (bool edited : {false, true}) {
        CAPTURE(edited);
        ForwardRequest request = whole_request(random_tokens(20, 320));
        if (edited) {
            request.edits            = {{0, {1}, {}, {3, 4}, -INFINITY}, {2, {}, {}, {5}, 1.5f}};
            observer(request).probed = {3};
            observer(request).probe  = [](int32_t layer, const std::vector<int32_t> & keys, const float *) {
                return std::vector<AttentionEdit>{{layer, {}, {}, {keys[0]}, -INFINITY}};
            };
        }
        const TapLog expected = observe(*near, request, taps);
        const TapLog seen     = observe(*far, request, taps);
        REQUIRE(seen.size() == expected.size());
        for (const auto & [key, value] : expected) {
            CAPTURE(key);
            REQUIRE(seen.at(key).shape == value.shape);
            CHECK(max_abs_diff(without_infinities(seen.at(key).data), without_infinities(value.data)) <= 1e-5);
        }
        CHECK(nmse(far->forward(request).logits, near->forward(request).logits) <= 1e-12);
    }
}

TEST_CASE("a recording is the same from there") {
    const RpcServer   first, second;
    const std::string dir = temp_dir(), path = random_gguf({});
    const auto        dump = [&](const std::string & name, const Args & where) {
        const ProgramResult result =
            cli(Args{"-m", path, "-p", "abc", "-n", "12", "--attn-dump", dir + "/" + name, "--attn-reduce", "none",
                     "--attn-dtype", "f32", "-fa", "off", "--attn-edit", "drop keys=1 layers=1"} +
                       where);
        CAPTURE(result.err);
        REQUIRE(result.code == 0);
        return analysis::Recording::open(dir + "/" + name);
    };
    const auto near = dump("near.npz", {});
    const auto far =
        dump("far.npz", {"--rpc", first.endpoint() + "," + second.endpoint(), "-ngl", "all", "-ts", "1,1"});
    REQUIRE(far.n_steps() == near.n_steps());
    REQUIRE(far.layers() == near.layers());
    for (int32_t step : near.steps()) {
        for (int32_t layer : near.layers()) {
            CHECK(max_abs_diff(far.read(Tap::pattern, step, layer).values,
                               near.read(Tap::pattern, step, layer).values) <= 1e-5);
        }
    }
}

TEST_CASE("libllama's engine places weights by the same flags") {
    RandomModel random;
    random.arch                  = "qwen3moe";
    random.n_layer               = 4;
    const std::string path       = random_gguf(random);
    TestModel         model      = on_servers(path);
    model.n_gpu_layers           = 4;
    model.tensor_split           = {3, 1};
    model.n_cpu_moe              = 2;
    model.overrides              = {{"blk\\.3\\.attn_q\\.", "CPU"}};
    const auto           far     = load_llama_context(model, exact_alone());
    const auto           near    = load_llama_context(local(path), exact_alone());
    const ForwardRequest request = whole_request(random_tokens(16, 320));
    CHECK(nmse(far->forward(request).logits, near->forward(request).logits) <= 1e-12);
    CHECK(devices_of(*far, "blk.0.") == Names{"CPU"});
    CHECK(devices_of(*far, "blk.1.attn_k.") == Names{"RPC0"});
    CHECK(devices_of(*far, "blk.1.ffn_up_exps") == Names{"CPU"});
    CHECK(devices_of(*far, "blk.2.ffn_up_exps") == Names{"RPC0"});
    CHECK(devices_of(*far, "blk.3.attn_k.") == Names{"RPC0"});
    CHECK(devices_of(*far, "blk.3.attn_q.") == Names{"CPU"});
    CHECK(devices_of(*far, "output_norm") == Names{"RPC1"});
}

TEST_CASE("shares and indices beyond the devices are refused") {
    TestModel  model = on_servers(random_gguf({}));
    const auto error = [&](const auto & change) {
        TestModel changed = model;
        change(changed);
        try {
            load_context(changed, exact_alone());
            return std::string();
        } catch (const Error & e) {
            CHECK(e.kind() == ErrorKind::request);
            return std::string(e.what());
        }
    };
    CHECK(error([](TestModel & m) {
              m.tensor_split = {1, 1, 1};
          }) == "`tensor_split` has 3 shares, expected at most one for each of the 2 devices");
    CHECK(error([](TestModel & m) { m.tensor_split = {0, 0}; }) == "`tensor_split`: no device has a share");
    CHECK(error([](TestModel & m) { m.main_gpu = 2; }).rfind("`main_gpu` is 2, expected 0 to 1", 0) == 0);
    CHECK(error([](TestModel & m) { m.devices = {"RPC0", "RPC0"}; }) == "`devices`: 'RPC0' is listed twice");
    CHECK(error([](TestModel & m) { m.devices = {"RPC7"}; }) ==
          "`devices`: unknown device 'RPC7', the devices are: CPU, RPC0, RPC1");
}

TEST_CASE("the benchmark runs there, too") {
    const RpcServer server;
    ProgramSpec     spec;
    spec.name = "llama-diffusion-bench";
    spec.args = {"-m",    random_gguf({}),  "-r", "1", "-t", "1", "-p", "4", "-n", "16", "-o", "jsonl", "-ngl", "all,0",
                 "--rpc", server.endpoint()};
    const ProgramResult result = run_program(spec);
    CHECK(result.code == 0);
    CHECK(std::count(result.out.begin(), result.out.end(), '\n') == 2);
    spec.args.insert(spec.args.end(), {"-dev", "RPC7"});
    check_refused(run_program(spec), "unknown device 'RPC7', the devices are: CPU, RPC0");
}

TEST_SUITE_END();
