#include "buoy/weight-type.h"

#include "io/gguf-file.h"

#include <ggml.h>

#include <algorithm>
#include <map>

namespace buoy {

std::string weight_type(const ModelFile & file) {
    std::map<std::string, uint64_t> bytes;
    for (const GgufTensor & tensor : file.gguf().tensors()) {
        bytes[ggml_type_name(tensor.type)] += tensor.size;
    }
    const auto most = std::max_element(bytes.begin(), bytes.end(),
                                       [](const auto & a, const auto & b) { return a.second < b.second; });
    return most != bytes.end() ? most->first : "";
}

} // namespace buoy
