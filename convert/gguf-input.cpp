#include "buoy/message.h"
#include "input.h"
#include "io/gguf-file.h"
#include "size-label.h"

#include <filesystem>

namespace buoy {

namespace {

PlannedTensor planned(const GgufTensor & tensor, const std::shared_ptr<const GgufFile> & file) {
    const std::string & path = file->paths().at(static_cast<size_t>(tensor.file));
    if (tensor.n_dims > 3 && tensor.ne[3] != 1) {
        fail(printable(path), ": tensor ", in_quotes(tensor.name), " has 4 dimensions, expected at most 3");
    }
    if (tensor.type != GGML_TYPE_F32 && ggml_get_type_traits(tensor.type)->to_float == nullptr) {
        fail(printable(path), ": tensor ", in_quotes(tensor.name), " is ", ggml_type_name(tensor.type),
             ", which can't be read as numbers");
    }
    TensorSource source;
    source.name   = tensor.name;
    source.file   = std::shared_ptr<const MappedFile>(file, &file->file(tensor.file));
    source.offset = tensor.offset;
    source.type   = tensor.type;

    PlannedTensor out;
    out.name   = tensor.name;
    out.parts  = {source};
    out.n_cols = tensor.ne[0];
    out.n_rows = tensor.ne[1] * tensor.ne[2];
    out.n_dims = std::min(tensor.n_dims, 3);
    out.n_last = tensor.ne[2];
    out.type   = tensor.type;
    return out;
}

MixModel mix_model(const GgufFile & file) {
    MixModel          model;
    const std::string arch = file.require_string("general.architecture");
    const auto        size = [&](const char * key, int64_t fallback) {
        const std::string name = arch + key;
        if (file.is_array(name)) { // one a layer; the rules look at the first
            const auto values = file.get_int_array(name);
            return values->empty() ? fallback : values->front();
        }
        return file.get_int(name).value_or(fallback);
    };
    model.arch      = arch;
    model.n_layer   = size(".block_count", 0);
    model.n_head    = size(".attention.head_count", 1);
    model.n_head_kv = size(".attention.head_count_kv", model.n_head);
    model.n_expert  = size(".expert_count", 0);
    return model;
}

} // namespace

ConvertInput open_gguf(const std::string & path, const QuantMix & mix, const LogCallback & log) {
    const auto   file = std::make_shared<const GgufFile>(GgufFile::open(path));
    ConvertInput input;
    size_t       n_blocks = 0;
    for (const GgufTensor & tensor : file->tensors()) {
        input.tensors.push_back(planned(tensor, file));
        n_blocks += ggml_is_quantized(tensor.type) ? 1 : 0;
    }
    if (input.tensors.empty()) {
        fail(printable(path), ": no tensors, nothing to convert");
    }
    input.model = mix_model(*file);
    input.files = file->paths();
    input.header.copy_keys(file->paths().front());
    input.header.set("general.quantization_version", static_cast<uint32_t>(GGML_QNT_VERSION));
    input.header.set("general.file_type", mix.file_type);

    input.name       = file->get_string("general.name").value_or(std::filesystem::path(path).stem().string());
    input.size_label = file->get_string("general.size_label").value_or(size_label(input.tensors));
    if (n_blocks > 0 && log) {
        log(LogLevel::warn, concat(printable(path), ": ", n_blocks,
                                   " tensors are quantised already; quantising them again loses more"));
    }
    return input;
}

} // namespace buoy
