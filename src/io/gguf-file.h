#pragma once

#include "io/gguf-header.h"
#include "io/mapped-file.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace buoy {

// A GGUF model, version 2 or 3, of one file or many. Everything in it has been checked against the files before it can
// be asked for: a tensor's bytes exist, are aligned and belong to it alone. Copies share one opened model.
class GgufFile {
public:
    // Any file of a split model opens all of them: NAME-00001-of-00003.gguf and its siblings.
    static GgufFile open(const std::string & path);

    const std::vector<std::string> & paths() const;
    const MappedFile &               file(int index) const;
    uint64_t                         size() const; // of all files
    uint32_t                         version() const;
    uint32_t                         alignment() const; // of the first file

    // Keys of a split model are those of its first file.
    std::vector<std::string> keys() const;
    bool                     has(const std::string & key) const;
    bool                     is_array(const std::string & key) const; // false if missing

    // No value where the key is missing; an Error where it has another type. Integers may have any width that fits.
    std::optional<int64_t>     get_int(const std::string & key) const;
    std::optional<double>      get_float(const std::string & key) const; // finite
    std::optional<bool>        get_bool(const std::string & key) const;
    std::optional<std::string> get_string(const std::string & key) const;

    std::optional<std::vector<bool>>        get_bool_array(const std::string & key) const;
    std::optional<std::vector<int64_t>>     get_int_array(const std::string & key) const;
    std::optional<std::vector<double>>      get_float_array(const std::string & key) const;
    std::optional<std::vector<std::string>> get_string_array(const std::string & key) const;
    std::optional<uint64_t>                 array_size(const std::string & key) const;

    // The same, but a missing key, or an integer outside [min, max], is an Error.
    int64_t     require_int(const std::string & key, int64_t min, int64_t max) const;
    double      require_float(const std::string & key) const;
    std::string require_string(const std::string & key) const;

    const std::vector<GgufTensor> & tensors() const;
    const GgufTensor *              find_tensor(const std::string & name) const; // nullptr if missing

    // Throws if a file is now shorter than when it was opened.
    void check_size() const;

private:
    struct Impl;
    explicit GgufFile(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

    std::shared_ptr<const Impl> impl_;
};

} // namespace buoy
