// Checkpoints of Hugging Face's layout: safetensors, and the JSON files beside them on the way to GGUF.

#include "mutate.h"
#include "target.h"

#include "convert.h"
#include "io/safetensors.h"
#include "sentencepiece.h"
#include "support/hf-dir.h"

#include <cstring>
#include <filesystem>

namespace buoy::fuzz {

namespace {

namespace fs = std::filesystem;

const char * const json_files[] = {"config.json", "tokenizer.json", "tokenizer_config.json"};

// A checkpoint as the files that are damaged; model.safetensors stays.
std::string seed_of(const std::string & architecture) {
    test::HfDir dir                       = test::tiny_checkpoint(architecture);
    dir.tokenizer_config["chat_template"] = "{{ x }}";
    dir.config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 2.0}, {"original_max_position_embeddings", 64}};
    return bundled({{"config.json", dir.config.dump()},
                    {"tokenizer.json", dir.tokenizer.dump()},
                    {"tokenizer_config.json", dir.tokenizer_config.dump()}});
}

std::vector<std::string> seeds() {
    return {seed_of("LlamaForCausalLM"), seed_of("LLaDAModelLM"), seed_of("DreamModel"), seed_of("Qwen3ForCausalLM")};
}

void run(const std::string & input) {
    static const std::string dir = test::tiny_checkpoint("LlamaForCausalLM").write();
    for (const char * name : json_files) {
        fs::remove(dir + "/" + name);
    }
    for (const auto & [name, bytes] : unbundled(input)) {
        for (const char * known : json_files) {
            if (name == known) {
                test::write_file(dir + "/" + name, bytes);
            }
        }
    }
    ConvertParams params;
    params.input     = dir;
    params.output    = scratch_dir() + "/out.gguf";
    params.force     = true;
    params.n_threads = 1;
    convert_hf(params);
}

void mutate(std::string & input, Random & random) {
    Parts parts = unbundled(input);
    if (parts.empty()) {
        mutate_bytes(input, random);
        return;
    }
    mutate_json(parts[below(random, parts.size())].second, random);
    input = bundled(parts);
}

// safetensors alone

std::vector<std::string> safetensors_seeds() {
    return {test::safetensors_bytes({{"a", {2, 2}, {1, 2, 3, 4}}, {"b", {3}, {5, 6, 7}, "BF16"}}),
            test::safetensors_bytes("{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F16\",\"shape\":[],"
                                    "\"data_offsets\":[0,2]}}",
                                    "xx")};
}

void run_safetensors(const std::string & input) {
    const Safetensors file = Safetensors::open_file(scratch_file("model.safetensors", input));
    for (const SafetensorsTensor & tensor : file.tensors()) {
        demand(tensor.size <= input.size(), "a tensor is no larger than its file");
        std::string data(static_cast<size_t>(tensor.size), '\0');
        file.read(tensor, 0, data.data(), data.size());
    }
}

// The length of a header that is changed is put right, most times.
void mutate_safetensors(std::string & input, Random & random) {
    uint64_t length = 0;
    if (input.size() >= 8) {
        std::memcpy(&length, input.data(), 8);
    }
    if (input.size() < 8 || length > input.size() - 8 || below(random, 4) == 0) {
        mutate_bytes(input, random);
        return;
    }
    std::string header = input.substr(8, static_cast<size_t>(length));
    mutate_json(header, random);
    input = test::safetensors_bytes(header, input.substr(8 + static_cast<size_t>(length)));
}

// tokenizer.model, a protocol buffer

std::vector<std::string> sentencepiece_seeds() {
    const auto piece = [](const std::string & text, char type) {
        const std::string score("\x15\0\0\0\xbf", 5);
        const std::string inner = "\x0a" + std::string(1, static_cast<char>(text.size())) + text + score +
                                  (type == 1 ? "" : std::string("\x18") + type);
        return "\x0a" + std::string(1, static_cast<char>(inner.size())) + inner;
    };
    const std::string trainer("\x12\x02\x18\x02", 4); // model_type = BPE
    return {piece("<unk>", 2) + piece("<s>", 3) + piece("</s>", 3) + piece("<0x41>", 6) + piece("a", 1) +
            piece("b", 1) + piece("ab", 1) + trainer};
}

void run_sentencepiece(const std::string & input) {
    Tokenizer tokenizer;
    read_sentencepiece(tokenizer, scratch_file("tokenizer.model", input), 16);
}

} // namespace

Target checkpoint_target() { return {"checkpoint", seeds, run, mutate}; }
Target safetensors_target() { return {"safetensors", safetensors_seeds, run_safetensors, mutate_safetensors}; }
Target sentencepiece_target() { return {"sentencepiece", sentencepiece_seeds, run_sentencepiece, mutate_bytes}; }

} // namespace buoy::fuzz
