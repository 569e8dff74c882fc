#pragma once

#include <map>
#include <string>
#include <vector>

struct ggml_tensor;

namespace buoy::test {

// An operation of a graph with what upstream's tables know of it: "type=f32", several spellings of the same, "a=f16|b=f16", or
// "?hsk=128", which counts only where a table has such a case.
struct OpUse {
    std::string              op;
    std::vector<std::string> conditions;

    bool        operator<(const OpUse & other) const;
    std::string text() const;
};

OpUse op_use(const ggml_tensor * node);

// What `test-backend-ops support` of the pinned tree said on a machine with that backend (docs/ops/NAME.csv).
class BackendTable {
public:
    explicit BackendTable(const std::string & csv);

    struct Answer {
        int n_yes = 0, n_no = 0; // cases that fit
    };

    Answer ask(const OpUse & use) const;

private:
    struct Case {
        std::string params; // ",key=value,…,"
        bool        supported;
    };

    std::map<std::string, std::vector<Case>> cases_; // by operation
};

// The pinned tree, "" where it is not on this machine.
std::string llama_cpp_dir();

} // namespace buoy::test
