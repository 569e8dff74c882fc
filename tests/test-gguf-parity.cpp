// The same files, read by us and by ggml.

#include "io/gguf-file.h"
#include "support/gguf-bytes.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <ggml-cpp.h>

#include <vector>

using namespace buoy;
using namespace buoy::test;

namespace {

template <typename T> std::vector<T> items(const gguf_context * ctx, int64_t id) {
    const auto * data = static_cast<const T *>(gguf_get_arr_data(ctx, id));
    return std::vector<T>(data, data + gguf_get_arr_n(ctx, id));
}

template <typename T> void check_ints(const GgufFile & file, const std::string & key, const std::vector<T> & expected) {
    const auto found = file.get_int_array(key);
    REQUIRE(found.has_value());
    CHECK(*found == std::vector<int64_t>(expected.begin(), expected.end()));
}

void check_array(const GgufFile & file, const gguf_context * ctx, int64_t id, const std::string & key) {
    CHECK(file.is_array(key));
    CHECK(file.array_size(key) == gguf_get_arr_n(ctx, id));
    switch (gguf_get_arr_type(ctx, id)) {
        case GGUF_TYPE_UINT8: return check_ints(file, key, items<uint8_t>(ctx, id));
        case GGUF_TYPE_INT8: return check_ints(file, key, items<int8_t>(ctx, id));
        case GGUF_TYPE_UINT16: return check_ints(file, key, items<uint16_t>(ctx, id));
        case GGUF_TYPE_INT16: return check_ints(file, key, items<int16_t>(ctx, id));
        case GGUF_TYPE_UINT32: return check_ints(file, key, items<uint32_t>(ctx, id));
        case GGUF_TYPE_INT32: return check_ints(file, key, items<int32_t>(ctx, id));
        case GGUF_TYPE_UINT64: return check_ints(file, key, items<uint64_t>(ctx, id));
        case GGUF_TYPE_INT64: return check_ints(file, key, items<int64_t>(ctx, id));
        case GGUF_TYPE_FLOAT32: {
            const auto expected = items<float>(ctx, id);
            CHECK(file.get_float_array(key) == std::vector<double>(expected.begin(), expected.end()));
            return;
        }
        case GGUF_TYPE_FLOAT64: CHECK(file.get_float_array(key) == items<double>(ctx, id)); return;
        case GGUF_TYPE_STRING: {
            const auto found = file.get_string_array(key);
            REQUIRE(found.has_value());
            for (size_t i = 0; i < found->size(); ++i) {
                // ggml hands out C strings, so only what comes before a zero byte can be compared
                CHECK(std::string((*found)[i].c_str()) == gguf_get_arr_str(ctx, id, i));
            }
            return;
        }
        default: return; // arrays of bool have no accessor here
    }
}

void check_value(const GgufFile & file, const gguf_context * ctx, int64_t id, const std::string & key) {
    switch (gguf_get_kv_type(ctx, id)) {
        case GGUF_TYPE_UINT8: CHECK(file.get_int(key) == gguf_get_val_u8(ctx, id)); return;
        case GGUF_TYPE_INT8: CHECK(file.get_int(key) == gguf_get_val_i8(ctx, id)); return;
        case GGUF_TYPE_UINT16: CHECK(file.get_int(key) == gguf_get_val_u16(ctx, id)); return;
        case GGUF_TYPE_INT16: CHECK(file.get_int(key) == gguf_get_val_i16(ctx, id)); return;
        case GGUF_TYPE_UINT32: CHECK(file.get_int(key) == gguf_get_val_u32(ctx, id)); return;
        case GGUF_TYPE_INT32: CHECK(file.get_int(key) == gguf_get_val_i32(ctx, id)); return;
        case GGUF_TYPE_UINT64: CHECK(file.get_int(key) == static_cast<int64_t>(gguf_get_val_u64(ctx, id))); return;
        case GGUF_TYPE_INT64: CHECK(file.get_int(key) == gguf_get_val_i64(ctx, id)); return;
        case GGUF_TYPE_FLOAT32: CHECK(file.get_float(key) == gguf_get_val_f32(ctx, id)); return;
        case GGUF_TYPE_FLOAT64: CHECK(file.get_float(key) == gguf_get_val_f64(ctx, id)); return;
        case GGUF_TYPE_BOOL: CHECK(file.get_bool(key) == gguf_get_val_bool(ctx, id)); return;
        case GGUF_TYPE_STRING: CHECK(file.get_string(key) == gguf_get_val_str(ctx, id)); return;
        case GGUF_TYPE_ARRAY: return check_array(file, ctx, id, key);
        default: FAIL("ggml has a value type that we do not know");
    }
}

void check_same(const std::string & path) {
    CAPTURE(path);
    ggml_context *         data_raw = nullptr;
    const gguf_context_ptr ctx(gguf_init_from_file(path.c_str(), {true, &data_raw}));
    const ggml_context_ptr data(data_raw);
    REQUIRE(ctx != nullptr);
    const GgufFile file = GgufFile::open(path);

    CHECK(file.version() == gguf_get_version(ctx.get()));
    CHECK(file.alignment() == gguf_get_alignment(ctx.get()));
    REQUIRE(static_cast<int64_t>(file.keys().size()) == gguf_get_n_kv(ctx.get()));
    for (int64_t id = 0; id < gguf_get_n_kv(ctx.get()); ++id) {
        const std::string key = gguf_get_key(ctx.get(), id);
        CAPTURE(key);
        CHECK(file.keys()[static_cast<size_t>(id)] == key);
        check_value(file, ctx.get(), id, key);
    }

    REQUIRE(static_cast<int64_t>(file.tensors().size()) == gguf_get_n_tensors(ctx.get()));
    for (int64_t id = 0; id < gguf_get_n_tensors(ctx.get()); ++id) {
        const GgufTensor &  found    = file.tensors()[static_cast<size_t>(id)];
        const ggml_tensor * expected = ggml_get_tensor(data.get(), gguf_get_tensor_name(ctx.get(), id));
        REQUIRE(expected != nullptr);
        CAPTURE(found.name);
        CHECK(found.name == expected->name);
        CHECK(found.type == expected->type);
        CHECK(found.size == ggml_nbytes(expected));
        CHECK(found.offset == gguf_get_data_offset(ctx.get()) + gguf_get_tensor_offset(ctx.get(), id));
        for (size_t i = 0; i < 4; ++i) {
            CHECK(found.ne[i] == expected->ne[i]);
        }
    }
}

} // namespace

TEST_CASE("gguf parity: a file of our test writer") {
    check_same(write_file(temp_dir(), "sample.gguf", gguf_sample().build()));

    GgufBytes wide = gguf_sample();
    wide.version   = 2;
    wide.alignment = 128;
    wide.u32("general.alignment", 128);
    check_same(write_file(temp_dir(), "wide.gguf", wide.build()));
}

TEST_CASE("gguf parity: a file of ggml's writer, with every tensor type it has") {
    const ggml_context_ptr ctx(ggml_init({size_t{1} << 20, nullptr, false}));
    const gguf_context_ptr out(gguf_init_empty());
    gguf_set_val_str(out.get(), "general.architecture", "llama");
    gguf_set_val_bool(out.get(), "flag", false);
    gguf_set_val_i64(out.get(), "low", -5);
    const float scales[] = {0.5f, 0.25f};
    gguf_set_arr_data(out.get(), "scales", GGUF_TYPE_FLOAT32, scales, 2);
    const char * words[] = {"\u0120a", "", "b"};
    gguf_set_arr_str(out.get(), "words", words, 3);

    int n_types = 0;
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const auto type = static_cast<ggml_type>(i);
        if (ggml_type_size(type) == 0) {
            continue;
        }
        ggml_tensor * tensor = ggml_new_tensor_2d(ctx.get(), type, 256, 3);
        ggml_set_name(tensor, ggml_type_name(type));
        gguf_add_tensor(out.get(), tensor);
        ++n_types;
    }
    REQUIRE(n_types > 30);
    const std::string path = temp_dir() + "/ggml.gguf";
    REQUIRE(gguf_write_to_file(out.get(), path.c_str(), false));
    check_same(path);
}
