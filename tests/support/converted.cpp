#include "support/converted.h"

#include "convert.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>

namespace buoy::test {

std::string oracle_dir(const std::string & name) {
    const std::string dir = oracles_dir() + "/" + name;
    return std::filesystem::is_directory(dir) ? dir : shared_dir() + "/data/" + name;
}

std::string converted_oracle(const std::string & name, const std::string & outtype) {
    static std::map<std::string, std::string> done;
    std::string &                             path = done[name + "-" + outtype];
    if (path.empty()) {
        ConvertParams params;
        params.input   = oracle_dir(name);
        params.output  = temp_dir() + "/" + name + "-" + outtype + ".gguf";
        params.outtype = parse_outtype(outtype);
        convert_hf(params);
        path = params.output;
    }
    return path;
}

std::vector<float> floats(const GgufFile & file, const std::string & name) {
    const GgufTensor * tensor = file.find_tensor(name);
    REQUIRE(tensor != nullptr);
    REQUIRE(tensor->type == GGML_TYPE_F32);
    std::vector<float> values(static_cast<size_t>(tensor->size / 4));
    file.file(tensor->file).read(tensor->offset, values.data(), static_cast<size_t>(tensor->size));
    return values;
}

} // namespace buoy::test
