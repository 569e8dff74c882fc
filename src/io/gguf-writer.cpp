#include "io/gguf-writer.h"

#include "buoy/message.h"

#include <ggml-cpp.h>
#include <gguf.h>

namespace buoy {

void GgufWriter::Free::operator()(gguf_context * context) const { gguf_free(context); }

GgufWriter::GgufWriter() : context_(gguf_init_empty()) {}

void GgufWriter::set(const std::string & key, const std::string & value) {
    gguf_set_val_str(context_.get(), key.c_str(), value.c_str());
}

void GgufWriter::set(const std::string & key, bool value) { gguf_set_val_bool(context_.get(), key.c_str(), value); }

void GgufWriter::set(const std::string & key, uint32_t value) { gguf_set_val_u32(context_.get(), key.c_str(), value); }

void GgufWriter::set(const std::string & key, float value) { gguf_set_val_f32(context_.get(), key.c_str(), value); }

void GgufWriter::set(const std::string & key, const std::vector<std::string> & values) {
    std::vector<const char *> pointers;
    pointers.reserve(values.size());
    for (const std::string & value : values) {
        pointers.push_back(value.c_str());
    }
    gguf_set_arr_str(context_.get(), key.c_str(), pointers.data(), pointers.size());
}

void GgufWriter::set(const std::string & key, const std::vector<int32_t> & values) {
    gguf_set_arr_data(context_.get(), key.c_str(), GGUF_TYPE_INT32, values.data(), values.size());
}

void GgufWriter::set(const std::string & key, const std::vector<bool> & values) {
    const std::vector<int8_t> bytes(values.begin(), values.end());
    gguf_set_arr_data(context_.get(), key.c_str(), GGUF_TYPE_BOOL, bytes.data(), bytes.size());
}

void GgufWriter::set(const std::string & key, const std::vector<float> & values) {
    gguf_set_arr_data(context_.get(), key.c_str(), GGUF_TYPE_FLOAT32, values.data(), values.size());
}

bool GgufWriter::has(const std::string & key) const { return gguf_find_key(context_.get(), key.c_str()) >= 0; }

std::vector<std::string> GgufWriter::texts(const std::string & key) const {
    std::vector<std::string> values;
    const int64_t            id = gguf_find_key(context_.get(), key.c_str());
    if (id >= 0 && gguf_get_kv_type(context_.get(), id) == GGUF_TYPE_ARRAY &&
        gguf_get_arr_type(context_.get(), id) == GGUF_TYPE_STRING) {
        for (size_t i = 0; i < gguf_get_arr_n(context_.get(), id); i++) {
            values.emplace_back(gguf_get_arr_str(context_.get(), id, i));
        }
    }
    return values;
}

void GgufWriter::copy_keys(const std::string & path) {
    const gguf_context_ptr source(gguf_init_from_file(path.c_str(), {true, nullptr}));
    if (source == nullptr) {
        fail(printable(path), ": ggml can't read back the keys");
    }
    for (const char * key : {"split.no", "split.count", "split.tensors.count", "general.alignment"}) {
        gguf_remove_key(source.get(), key);
    }
    gguf_set_kv(context_.get(), source.get());
}

GgufWriter GgufWriter::copy() const {
    GgufWriter other;
    gguf_set_kv(other.context_.get(), context_.get());
    return other;
}

void GgufWriter::set_split(uint16_t index, uint16_t count, int32_t n_tensors) {
    gguf_set_val_u16(context_.get(), "split.no", index);
    gguf_set_val_u16(context_.get(), "split.count", count);
    gguf_set_val_i32(context_.get(), "split.tensors.count", n_tensors);
}

void GgufWriter::add_tensor(const std::string & name, ggml_type type, const std::vector<int64_t> & ne) {
    const ggml_context_ptr scratch(ggml_init({ggml_tensor_overhead() * 2, nullptr, true}));
    ggml_tensor *          entry = ggml_new_tensor(scratch.get(), type, static_cast<int>(ne.size()), ne.data());
    ggml_set_name(entry, name.c_str());
    gguf_add_tensor(context_.get(), entry);
}

std::vector<char> GgufWriter::bytes() const {
    std::vector<char> bytes(gguf_get_meta_size(context_.get()));
    gguf_get_meta_data(context_.get(), bytes.data());
    return bytes;
}

} // namespace buoy
