#include "support/attn-cli.h"

#include "support/random-context.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace buoy::test {

const std::string & layered_model(const std::string & arch) {
    static std::map<std::string, std::string> paths;
    std::string &                             path = paths[arch];
    if (path.empty()) {
        RandomModel model;
        model.arch    = arch;
        model.n_layer = 3;
        path          = random_gguf(model);
    }
    return path;
}

nlohmann::json attn_json(const Args & args) {
    const ProgramResult result = cli(args + Args{"--json"});
    CAPTURE(result.err);
    CHECK(result.code == 0);
    CHECK((result.err.empty() || (result.is_one_line() && contains(result.err, "recording at most "))));
    const nlohmann::json json = nlohmann::json::parse(result.out, nullptr, false);
    CHECK(json.is_object());
    return json.is_object() ? json : nlohmann::json::object();
}

Array read_array(const NpzReader & file, const std::string & name) {
    NpyHeader header;
    Array     array;
    array.values = file.read_floats(file.get(name), header);
    array.shape  = header.shape;
    return array;
}

nlohmann::json read_meta(const NpzReader & file) {
    return nlohmann::json::parse(file.read_text(file.get("meta.json")));
}

std::string attn_name(int step, int layer, const std::string & kind) {
    char text[80];
    std::snprintf(text, sizeof(text), "%s/step_%04d/layer_%02d", kind.c_str(), step, layer);
    return text;
}

double max_abs(const std::vector<float> & values) {
    double largest = 0.0;
    for (float value : values) {
        largest = std::max(largest, std::abs(static_cast<double>(value)));
    }
    return largest;
}

double worst_row_sum(const Array & pattern) {
    const auto K     = static_cast<size_t>(pattern.shape.back());
    double     worst = 0.0;
    for (size_t first = 0; first < pattern.values.size(); first += K) {
        double sum = 0.0;
        for (size_t k = 0; k < K; k++) {
            sum += static_cast<double>(pattern.values[first + k]);
        }
        worst = std::max(worst, std::abs(sum - 1.0));
    }
    return worst;
}

} // namespace buoy::test
