#include "support/converted.h"

#include "convert.h"
#include "support/paths.h"

#include <map>

namespace buoy::test {

std::string converted(const std::string & folder, const std::string & outtype) {
    static std::map<std::string, std::string> done;
    std::string & path = done[folder + ":" + outtype];
    if (path.empty()) {
        ConvertOptions options;
        options.input   = shared_dir() + "/" + folder;
        options.output  = temp_dir() + "/model-" + outtype + ".gguf";
        options.outtype = parse_outtype(outtype);
        convert_hf(options);
        path = options.output;
    }
    return path;
}

std::string converted_oracle(const std::string & name, const std::string & outtype) {
    return converted("oracles/" + name, outtype);
}

} // namespace buoy::test
