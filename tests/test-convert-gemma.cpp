// DiffusionGemma's checkpoint becomes what the converter of llama.cpp's ports makes of it.

#include "buoy/error.h"
#include "convert.h"
#include "io/gguf-file.h"
#include "io/json-file.h"
#include "support/converted.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/oracle.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>

using namespace buoy;
using namespace buoy::test;

namespace {

namespace fs = std::filesystem;
using Json   = nlohmann::json;

// The oracle's JSON files; a test may change them, or remove one by making it null.
struct Files {
    Json config;
    Json generation;
    Json tokenizer;
};

std::string directory(const std::function<void(Files &)> & change) {
    const std::string dir   = temp_dir() + "/hf";
    const std::string from  = oracle_dir("diffusion-gemma");
    Files             files = {load_json(from + "/config.json"), load_json(from + "/generation_config.json"),
                               load_json(from + "/tokenizer.json")};
    change(files);
    fs::remove_all(dir);
    fs::create_directories(dir);
    for (const char * name : {"model.safetensors", "tokenizer_config.json", "special_tokens_map.json"}) {
        fs::create_symlink(fs::absolute(from + "/" + name), dir + "/" + name);
    }
    const std::pair<const char *, const Json &> all[] = {{"config.json", files.config},
                                                         {"generation_config.json", files.generation},
                                                         {"tokenizer.json", files.tokenizer}};
    for (const auto & [name, json] : all) {
        if (!json.is_null()) {
            std::ofstream(dir + "/" + name) << json.dump();
        }
    }
    return dir;
}

struct Converted {
    GgufBytes   file;
    std::string path;
    std::string warnings;
    std::string error = "no error";
};

Converted convert(const std::string & dir, OutType outtype = OutType::f32) {
    Converted     out;
    ConvertParams params;
    params.input   = dir;
    params.output  = temp_dir() + "/out.gguf";
    params.outtype = outtype;
    params.force   = true;
    params.log     = [&](LogLevel, const std::string & text) { out.warnings += text; };
    try {
        convert_hf(params);
        out.path = params.output;
        out.file = parse_gguf(read_file(params.output));
    } catch (const Error & error) {
        out.error = error.what();
    }
    return out;
}

std::map<std::string, std::pair<uint32_t, std::string>> pairs_of(const GgufBytes & file) {
    std::map<std::string, std::pair<uint32_t, std::string>> pairs;
    for (const GgufBytes::Pair & pair : file.pairs) {
        pairs[pair.key] = {pair.type, pair.value};
    }
    return pairs;
}

// Keys that only one of the files has, or with another type or value.
std::set<std::string> different_keys(const GgufBytes & a, const GgufBytes & b) {
    const auto            left  = pairs_of(a);
    const auto            right = pairs_of(b);
    std::set<std::string> keys;
    for (const auto & [one, other] : {std::pair{&left, &right}, std::pair{&right, &left}}) {
        for (const auto & [key, value] : *one) {
            const auto found = other->find(key);
            if (found == other->end() || found->second != value) {
                keys.insert(key);
            }
        }
    }
    return keys;
}

void check_same_tensors(const GgufBytes & found, GgufBytes expected) {
    CHECK(found.tensors.size() == expected.tensors.size());
    for (const GgufBytes::Tensor & tensor : found.tensors) {
        CAPTURE(tensor.name);
        const GgufBytes::Tensor & other = expected.tensor(tensor.name);
        CHECK(tensor.dims == other.dims);
        CHECK(tensor.type == other.type);
        const bool same = tensor.data == other.data;
        CHECK(same);
    }
}

GgufBytes port_file() { return parse_gguf(read_file(oracle_dir("diffusion-gemma") + "/port-f32.gguf")); }

const std::function<void(Files &)> as_it_is = [](Files &) {};

Converted changed(const std::function<void(Json & text, Json & whole)> & change) {
    return convert(directory([&](Files & files) { change(files.config["text_config"], files.config); }));
}

} // namespace

TEST_CASE("convert DiffusionGemma: the same file as the ports' converter writes") {
    const Converted out = convert(oracle_dir("diffusion-gemma"));
    REQUIRE(out.error == "no error");
    CHECK(out.warnings.empty());
    check_same_tensors(out.file, port_file());
    // general.name: ours is the directory's name, theirs is made of it
    // eot_token_id: the second of the config's two end tokens, which theirs leaves out
    // token_type: below
    CHECK(different_keys(out.file, port_file()) ==
          std::set<std::string>{"general.name", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.token_type"});
    CHECK(GgufFile::open(out.path).get_int("tokenizer.ggml.eot_token_id") == 11);

    // Theirs knows only the special tokens that the tokenizer has a name for (bos_token and so on). Its other ones would be typed text:
    // a chat template's <|turn> would be read letter by letter.
    const auto ours = *GgufFile::open(out.path).get_int_array("tokenizer.ggml.token_type");
    const auto theirs =
        *GgufFile::open(oracle_dir("diffusion-gemma") + "/port-f32.gguf").get_int_array("tokenizer.ggml.token_type");
    REQUIRE(ours.size() == theirs.size());
    std::set<size_t> differ;
    for (size_t id = 0; id < ours.size(); id++) {
        if (ours[id] != theirs[id]) {
            CHECK(ours[id] == 3);
            CHECK(theirs[id] == 1);
            differ.insert(id);
        }
    }
    CHECK(differ == std::set<size_t>{5, 6, 7, 10, 11}); // <|image>, <image|>, <|image|>, <|turn>, <turn|>
}

TEST_CASE("convert DiffusionGemma: every dialect of the config makes the same file") {
    const GgufBytes expected = convert(directory(as_it_is)).file;
    const auto      check    = [&](const Converted & out) {
        CHECK(out.error == "no error");
        check_same_tensors(out.file, expected);
        CHECK(different_keys(out.file, expected).empty());
    };
    const auto by_layer = [](Json & text) {
        text.erase("global_head_dim");
        text.erase("num_global_key_value_heads");
        text["per_layer_config"] = {{"2", {{"head_dim", 32}, {"num_key_value_heads", 1}}},
                                    {"4", {{"head_dim", 32}, {"num_key_value_heads", 1}}}};
    };
    check(changed([&](Json & text, Json &) { by_layer(text); }));
    check(changed([&](Json & text, Json &) {
        by_layer(text);
        text["global_head_dim"]            = nullptr;
        text["num_global_key_value_heads"] = nullptr;
        text["per_layer_config"]["0"]      = {{"head_dim", 16}, {"num_key_value_heads", 2}};
    }));
    check(changed([](Json &, Json & whole) { whole["architectures"] = {"DiffusionGemma4ModelForBlockDiffusion"}; }));
    // the last layer is a full one whatever the list says
    check(changed([](Json & text, Json &) { text["layer_types"][4] = "sliding_attention"; }));
    // without the outer config
    check(changed([](Json & text, Json & whole) {
        Json flat             = text;
        flat["architectures"] = whole["architectures"];
        flat["canvas_length"] = whole["canvas_length"];
        flat["eos_token_id"]  = whole["eos_token_id"];
        whole                 = flat;
    }));
    // what the release has of no use
    check(changed([](Json & text, Json &) {
        text["attention_k_eq_v"]            = true;
        text["num_kv_shared_layers"]        = 0;
        text["hidden_size_per_layer_input"] = nullptr;
        text["enable_moe_block"]            = true;
    }));
}

TEST_CASE("convert DiffusionGemma: what the generation config recommends, if there is one") {
    const std::set<std::string> all      = {"diffusion.eb_max_steps",
                                            "diffusion.eb_t_min",
                                            "diffusion.eb_t_max",
                                            "diffusion.eb_entropy_bound",
                                            "diffusion.eb_stability_threshold",
                                            "diffusion.eb_confidence_threshold"};
    const GgufBytes             expected = convert(directory(as_it_is)).file;
    const Converted             none     = convert(directory([](Files & files) { files.generation = nullptr; }));
    CHECK(none.error == "no error");
    CHECK(different_keys(none.file, expected) == all); // end tokens are the config's as well
    const Converted some = convert(directory([](Files & files) {
        files.generation.erase("sampler_config");
        files.generation["t_max"]               = 1;
        files.generation["stability_threshold"] = 0;
    }));
    CHECK(different_keys(some.file, expected) == std::set<std::string>{"diffusion.eb_entropy_bound",
                                                                       "diffusion.eb_t_max",
                                                                       "diffusion.eb_stability_threshold"});
    CHECK(GgufFile::open(some.path).get_float("diffusion.eb_t_max") == 1.0);
    const Converted real = changed([](Json &, Json & whole) { whole.erase("canvas_length"); });
    CHECK(GgufFile::open(real.path).get_int("diffusion.canvas_length") == 256);

    const auto error_of = [](const std::function<void(Json &)> & change) {
        return convert(directory([&](Files & files) { change(files.generation); })).error;
    };
    const auto says = [](const std::string & text, const std::string & part) {
        CAPTURE(text);
        CHECK(text.find(part) != std::string::npos);
        CHECK(text.find('\n') == std::string::npos);
    };
    says(error_of([](Json & g) { g["max_denoising_steps"] = 0; }), "'max_denoising_steps' is 0");
    says(error_of([](Json & g) { g["t_min"] = -0.5; }), "'t_min' is -0.5");
    says(error_of([](Json & g) { g["confidence_threshold"] = "low"; }), "'confidence_threshold' is string");
    says(error_of([](Json & g) { g["sampler_config"]["entropy_bound"] = -1; }), "'entropy_bound' is -1");
    says(error_of([](Json & g) { g["sampler_config"]["_cls_name"] = "OtherConfig"; }), "EntropyBoundSamplerConfig");
}

TEST_CASE("convert DiffusionGemma: end tokens beyond the first") {
    const Converted out  = convert(directory([](Files & files) {
        files.config["eos_token_id"] = {1, 11, 8};
        files.generation             = nullptr;
    }));
    const GgufFile  file = GgufFile::open(out.path);
    CHECK(file.get_int("tokenizer.ggml.eos_token_id") == 1);
    CHECK(file.get_int("tokenizer.ggml.eot_token_id") == 11); // <turn|>, whatever the order
    CHECK(file.get_int("tokenizer.ggml.eom_token_id") == 8);
}

TEST_CASE("convert DiffusionGemma: a config that is wrong, or of a model that GGUF can't hold, is told") {
    const auto says = [](const std::function<void(Json &)> & change, const std::string & part) {
        const std::string text = changed([&](Json & config, Json &) { change(config); }).error;
        CAPTURE(text);
        CHECK(text.find(part) != std::string::npos);
        CHECK(text.find('\n') == std::string::npos);
    };
    says([](Json & c) { c["hidden_activation"] = "silu"; }, "'hidden_activation' is \"silu\"");
    says([](Json & c) { c["attention_k_eq_v"] = false; }, "'attention_k_eq_v'");
    says([](Json & c) { c["num_kv_shared_layers"] = 2; }, "'num_kv_shared_layers'");
    says([](Json & c) { c["layer_types"].erase(0); }, "'layer_types' is not a list with one entry for each of the 5");
    says([](Json & c) { c["layer_types"][0] = "linear"; }, "expected sliding_attention or full_attention");
    says([](Json & c) { c["layer_types"][0] = "full_attention"; }, "the config makes it [128, 64]");
    says([](Json & c) { c["layer_types"][2] = "sliding_attention"; }, "the config makes it");
    says([](Json & c) { c["global_head_dim"] = 16; }, "the config makes it [64, 64]");
    says([](Json & c) { c["num_global_key_value_heads"] = 3; }, "has 3 key/value heads");
    says([](Json & c) { c["num_global_key_value_heads"] = 2; }, "the config makes it [64, 64]");
    says([](Json & c) { c["per_layer_config"] = {{"2", {{"head_dim", 64}}}}; }, "GGUF has one size for each kind");
    says([](Json & c) { c["per_layer_config"] = {{"2", {{"head_dim", "x"}}}}; }, "per_layer_config of layer 2");
    says([](Json & c) { c["sliding_window"] = 0; }, "'sliding_window' is 0");
    says([](Json & c) { c.erase("sliding_window"); }, "no 'sliding_window'");
    says([](Json & c) { c.erase("rope_parameters"); }, "no object 'sliding_attention' in 'rope_parameters'");
    says([](Json & c) { c["rope_parameters"]["full_attention"]["rope_type"] = "default"; }, "only proportional");
    says([](Json & c) { c["rope_parameters"]["full_attention"]["rope_type"] = "yarn"; }, "only proportional");
    says([](Json & c) { c["rope_parameters"]["full_attention"]["partial_rotary_factor"] = 2; }, "expected 0 to 1");
    says([](Json & c) { c["rope_parameters"]["sliding_attention"]["rope_theta"] = -1; }, "rope_theta -1");
    says([](Json & c) { c["rope_parameters"]["sliding_attention"]["rope_type"] = "linear"; }, "only \"default\"");
    says([](Json & c) { c["final_logit_softcapping"] = nullptr; }, "no 'final_logit_softcapping'");
    says([](Json & c) { c["num_experts"] = 7; }, "the config makes it");
    says([](Json & c) { c["top_k_experts"] = 9; }, "expected 1 to 8");
    says([](Json & c) { c["moe_intermediate_size"] = 16; }, "the config makes it [8, 32, 64]");
    CHECK(changed([](Json &, Json & whole) {
              whole["tie_word_embeddings"] = false;
          }).error.find("'tie_word_embeddings'") != std::string::npos);
    CHECK(changed([](Json &, Json & whole) { whole["canvas_length"] = 0; }).error.find("'canvas_length' is 0") !=
          std::string::npos);
}

TEST_CASE("convert DiffusionGemma: RoPE's factors follow the share of a head that is rotated") {
    const auto factors = [](double share) {
        const Converted out = changed(
            [&](Json & text, Json &) { text["rope_parameters"]["full_attention"]["partial_rotary_factor"] = share; });
        return floats(GgufFile::open(out.path), "rope_freqs.weight");
    };
    for (const auto & [share, n] : {std::pair{0.25, 4}, std::pair{0.3, 4}, std::pair{0.5, 8}, std::pair{1.0, 16}}) {
        std::vector<float> expected(16, 1e30F);
        std::fill_n(expected.begin(), n, 1.0F);
        CHECK(factors(share) == expected);
    }
}

TEST_CASE("convert DiffusionGemma: quantised, what must be exact stays exact") {
    for (const OutType outtype : {OutType::f16, OutType::q8_0, OutType::q4_k_m}) {
        const Converted out = convert(oracle_dir("diffusion-gemma"), outtype);
        REQUIRE(out.error == "no error");
        GgufBytes expected = port_file();
        size_t    n_exact  = 0;
        for (const GgufBytes::Tensor & tensor : out.file.tensors) {
            CAPTURE(tensor.name);
            const bool exact = tensor.dims.size() == 1 || tensor.name.find("ffn_gate_inp") != std::string::npos;
            CHECK((tensor.type == GGML_TYPE_F32) == exact);
            if (exact) {
                const bool same = tensor.data == expected.tensor(tensor.name).data;
                CHECK(same);
                n_exact++;
            }
        }
        // of a layer: 7 norms of the stream, 2 of heads, 2 scalars, the router with its scale, the experts' scale; and three more
        CHECK(n_exact == 5 * 14 + 3);
    }
}

TEST_CASE("convert DiffusionGemma: values of their own in a global layer have no place in GGUF") {
    const std::string dir    = directory(as_it_is);
    const std::string source = read_file(dir + "/model.safetensors");
    uint64_t          n      = 0;
    std::memcpy(&n, source.data(), sizeof(n));
    Json header = Json::parse(source.substr(8, n));
    // bytes that another tensor has, too, would be refused: so they are the vision tower's
    const std::string taken = "model.encoder.vision_tower.encoder.layers.0.self_attn.v_proj.linear.weight";
    header["model.decoder.layers.2.self_attn.v_proj.weight"] = header[taken];
    header.erase(taken);
    fs::remove(dir + "/model.safetensors");
    test::write_file(dir + "/model.safetensors", safetensors_bytes(header.dump(), source.substr(8 + n)));
    const Converted out = convert(dir);
    CAPTURE(out.error);
    CHECK(out.error.find("'model.decoder.layers.2.self_attn.v_proj.weight' has no place") != std::string::npos);
}
