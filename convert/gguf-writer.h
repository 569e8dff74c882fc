#pragma once

#include "tensor-plan.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

struct gguf_context;

namespace buoy {

// A file that appears under its name only when it is complete: written to a sibling, synced, renamed. Dropped without
// commit() it leaves nothing behind.
class PendingFile {
public:
    // An existing output needs force; what is not a regular file is never replaced.
    PendingFile(const std::string & path, bool force);
    ~PendingFile();
    PendingFile(const PendingFile &)             = delete;
    PendingFile & operator=(const PendingFile &) = delete;

    // Fails early if the disk can't hold that much.
    void expect_size(uint64_t size) const;
    void write(const void * data, size_t size);
    void commit();

private:
    void check_target() const;

    std::string path_;
    std::string temporary_;
    bool        force_ = false;
    int         fd_    = -1;
};

// Keys and tensors of a GGUF file to be. Keys keep the order in which they are set.
class GgufHeader {
public:
    GgufHeader();

    void set(const std::string & key, const std::string & value);
    void set(const std::string & key, const char * value) { set(key, std::string(value)); }
    void set(const std::string & key, bool value);
    void set(const std::string & key, uint32_t value);
    void set(const std::string & key, float value);
    void set(const std::string & key, const std::vector<std::string> & values);
    void set(const std::string & key, const std::vector<int32_t> & values);
    void set(const std::string & key, const std::vector<float> & values);

    // In the order in which their data will be written.
    void add_tensors(const std::vector<PlannedTensor> & tensors);

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
