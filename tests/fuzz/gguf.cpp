// GGUF headers: every value and every tensor byte of a file that is accepted must be there.

#include "mutate.h"
#include "target.h"

#include "io/gguf-file.h"
#include "support/gguf-bytes.h"

namespace buoy::fuzz {

namespace {

std::vector<std::string> seeds() {
    test::GgufBytes tiny;
    tiny.u32("general.alignment", 8);
    tiny.alignment = 8;
    tiny.texts("t", {"a", "bc"});
    tiny.tensor("w", GGML_TYPE_F16, {4, 2});
    return {test::gguf_sample().build(), tiny.build()};
}

void run(const std::string & input) {
    const GgufFile file = GgufFile::open(scratch_file("fuzz.gguf", input));
    for (const std::string & key : file.keys()) {
        int n_answered = 0;
        n_answered += answered([&] { file.get_int(key); });
        n_answered += answered([&] { file.get_float(key); });
        n_answered += answered([&] { file.get_bool(key); });
        n_answered += answered([&] { file.get_string(key); });
        n_answered += answered([&] { file.get_int_array(key); });
        n_answered += answered([&] { file.get_float_array(key); });
        n_answered += answered([&] { file.get_string_array(key); });
        demand(n_answered <= 1, "a value has one type");
        demand(answered([&] { file.array_size(key); }) == file.is_array(key), "an array has a size");
    }
    std::string data;
    for (const GgufTensor & tensor : file.tensors()) {
        demand(tensor.size <= file.size(), "a tensor is no larger than its file");
        data.resize(tensor.size);
        file.file(tensor.file).read(tensor.offset, data.data(), data.size());
        demand(file.find_tensor(tensor.name) == &tensor, "a tensor is found by its name");
    }
}

} // namespace

Target gguf_target() { return {"gguf", seeds, run, mutate_bytes}; }

} // namespace buoy::fuzz
