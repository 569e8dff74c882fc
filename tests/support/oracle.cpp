#include "support/oracle.h"

#include "io/json-file.h"
#include "io/safetensors.h"
#include "support/converted.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace buoy::test {

namespace {

Safetensors open_expected(const std::string & dir) { return Safetensors::open_file(dir + "/expected.safetensors"); }

} // namespace

Oracle::Oracle(const std::string & name) : dir(oracle_dir(name)), expected(load_json(dir + "/expected.json")) {}

bool Oracle::has(const std::string & tensor) const { return open_expected(dir).find(tensor) != nullptr; }

std::vector<int64_t> Oracle::shape(const std::string & tensor) const { return open_expected(dir).find(tensor)->shape; }

std::vector<float> Oracle::floats(const std::string & tensor) const {
    const Safetensors  file  = open_expected(dir);
    const auto *       entry = file.find(tensor);
    std::vector<float> values(static_cast<size_t>(entry->n_elements()));
    file.read(*entry, 0, values.data(), values.size() * sizeof(float));
    return values;
}

std::vector<int32_t> Oracle::ids(const std::string & tensor) const {
    const Safetensors    file  = open_expected(dir);
    const auto *         entry = file.find(tensor);
    std::vector<int64_t> values(static_cast<size_t>(entry->n_elements()));
    file.read(*entry, 0, values.data(), values.size() * sizeof(int64_t));
    return {values.begin(), values.end()};
}

ForwardRequest Oracle::request() const {
    ForwardRequest request = whole_request(ids("input_ids"));
    request.block_length   = expected["forward"].value("block_length", 0);
    return request;
}

double nmse(const std::vector<float> & actual, const std::vector<float> & expected) {
    double error = actual.size() == expected.size() ? 0.0 : INFINITY;
    double power = 0.0;
    for (size_t i = 0; i < std::min(actual.size(), expected.size()); i++) {
        const double d = static_cast<double>(actual[i]) - expected[i];
        error += d * d;
        power += static_cast<double>(expected[i]) * expected[i];
    }
    return error / power;
}

double max_abs_diff(const std::vector<float> & actual, const std::vector<float> & expected) {
    double worst = actual.size() == expected.size() ? 0.0 : INFINITY;
    for (size_t i = 0; i < std::min(actual.size(), expected.size()); i++) {
        const double d = std::abs(static_cast<double>(actual[i]) - expected[i]);
        worst          = std::isnan(d) ? INFINITY : std::max(worst, d);
    }
    return worst;
}

std::vector<int32_t> argmax_rows(const std::vector<float> & values, size_t n) {
    std::vector<int32_t> best;
    for (size_t at = 0; at < values.size(); at += n) {
        const auto row = values.begin() + static_cast<ptrdiff_t>(at);
        best.push_back(static_cast<int32_t>(std::max_element(row, row + static_cast<ptrdiff_t>(n)) - row));
    }
    return best;
}

ForwardRequest whole_request(const std::vector<int32_t> & tokens) {
    ForwardRequest request;
    request.tokens = tokens;
    request.rows.resize(tokens.size());
    std::iota(request.rows.begin(), request.rows.end(), 0);
    return request;
}

} // namespace buoy::test
