#pragma once

#include <ggml.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct gguf_context;

namespace buoy {

// Keys and tensors of a GGUF file to be. Keys keep the order in which they are set.
class GgufWriter {
public:
    GgufWriter();

    void set(const std::string & key, const std::string & value);
    void set(const std::string & key, const char * value) { set(key, std::string(value)); }
    void set(const std::string & key, bool value);
    void set(const std::string & key, uint32_t value);
    void set(const std::string & key, float value);
    void set(const std::string & key, const std::vector<std::string> & values);
    void set(const std::string & key, const std::vector<int32_t> & values);
    void set(const std::string & key, const std::vector<bool> & values);
    void set(const std::string & key, const std::vector<float> & values);

    bool                     has(const std::string & key) const;
    std::vector<std::string> texts(const std::string & key) const; // an array's; empty where there is none

    // All keys of a GGUF file that was validated before; those that are about how it was cut into files are left out.
    void copy_keys(const std::string & path);
    // The keys, without the tensors.
    GgufWriter copy() const;

    // Marks one of several files of a model.
    void set_split(uint16_t index, uint16_t count, int32_t n_tensors);

    // In the order in which their data will be written; ne as ggml has it, innermost first.
    void add_tensor(const std::string & name, ggml_type type, const std::vector<int64_t> & ne);

    // The header, padded to where the tensor data begins.
    std::vector<char> bytes() const;

    static constexpr uint64_t alignment = 32; // GGUF's default

private:
    struct Free {
        void operator()(gguf_context * context) const;
    };

    std::unique_ptr<gguf_context, Free> context_;
};

} // namespace buoy
