#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace buoy {

class MappedFile;

struct SafetensorsTensor {
    std::string          name;
    std::string          dtype;      // as the file spells it: F32, F16, BF16, I64, …
    std::vector<int64_t> shape;      // outermost first
    uint64_t             offset = 0; // absolute in its file
    uint64_t             size   = 0; // bytes
    int                  file   = 0; // index into paths()

    int64_t n_elements() const;
};

// The tensors of one checkpoint, in one safetensors file or in several. Headers are validated in full before anything
// is sized by them: the tensors tile the data section without holes, overlaps or a rest.
class Safetensors {
public:
    static Safetensors open_file(const std::string & path);

    // model.safetensors, or the shards that model.safetensors.index.json names.
    static Safetensors open_dir(const std::string & dir);

    const std::vector<std::string> &       paths() const { return paths_; }
    const std::vector<SafetensorsTensor> & tensors() const { return tensors_; }
    const SafetensorsTensor *              find(const std::string & name) const;

    std::shared_ptr<const MappedFile> file(int index) const { return files_.at(static_cast<size_t>(index)); }

    // Bytes of a tensor, from `first` of its data on.
    void read(const SafetensorsTensor & tensor, uint64_t first, void * out, size_t size) const;

private:
    void add_file(const std::string & path);

    std::vector<std::string>                       paths_;
    std::vector<std::shared_ptr<const MappedFile>> files_;
    std::vector<SafetensorsTensor>                 tensors_;
    std::unordered_map<std::string, size_t>        index_;
};

} // namespace buoy
