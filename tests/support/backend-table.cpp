#include "support/backend-table.h"

#include <ggml.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <tuple>

namespace buoy::test {

namespace {

bool fits(const std::string & params, const std::string & condition) {
    size_t first = 0;
    while (true) {
        const size_t end = std::min(condition.find('|', first), condition.size());
        if (params.find("," + condition.substr(first, end - first) + ",") != std::string::npos) {
            return true;
        }
        if (end == condition.size()) {
            return false;
        }
        first = end + 1;
    }
}

// The fields of a line in which every field is quoted.
std::vector<std::string> fields(const std::string & line) {
    std::vector<std::string> out;
    size_t                   first = 1;
    while (first < line.size()) {
        const size_t end = std::min(line.find("\",\"", first), line.size() - 1);
        out.push_back(line.substr(first, end - first));
        first = end + 3;
    }
    return out;
}

} // namespace

bool OpUse::operator<(const OpUse & other) const {
    return std::tie(op, conditions) < std::tie(other.op, other.conditions);
}

std::string OpUse::text() const {
    std::string out = op;
    for (const std::string & condition : conditions) {
        out += " " + condition;
    }
    return out;
}

namespace {

std::string type(const char * key, const ggml_tensor * tensor) {
    return std::string(key) + "=" + ggml_type_name(tensor->type);
}

std::string number(const char * key, int64_t value) { return std::string(key) + "=" + std::to_string(value); }

std::string flag(const char * key, bool value) { return number(key, value ? 1 : 0); }

// How the second matrix has more of something than the first, and how they lie in memory, as far as the tables tell it.
void add_layout(const ggml_tensor * a, const ggml_tensor * b, OpUse & use) {
    const bool more_heads = b->ne[2] > a->ne[2], more_streams = b->ne[3] > a->ne[3];
    const bool permuted = !ggml_is_contiguous(a) || !ggml_is_contiguous(b);
    use.conditions.push_back(more_streams ? "nr=[1,2]" : more_heads && !permuted ? "nr=[2,1]" : "nr=[1,1]");
    use.conditions.push_back(permuted ? "per=[0,2,1,3]" : "per=[0,1,2,3]");
}

} // namespace

OpUse op_use(const ggml_tensor * node) {
    const ggml_tensor * a = node->src[0] != nullptr ? node->src[0] : node;
    const ggml_tensor * b = node->src[1];
    OpUse               use{ggml_op_desc(node), {}};
    switch (node->op) {
        case GGML_OP_MUL_MAT:
            use.conditions = {type("type_a", a), type("type_b", b)};
            add_layout(a, b, use);
            break;
        case GGML_OP_MUL_MAT_ID: use.conditions = {type("type_a", a), type("type_b", b)}; break;
        case GGML_OP_SET_ROWS:
            use.conditions = {type("type", node) + "|" + type("type_dst", node), type("type_idx", b)};
            break;
        case GGML_OP_CPY: use.conditions = {type("type_src", a), type("type_dst", node)}; break;
        case GGML_OP_SOFT_MAX:
            use.conditions = {type("type", a), flag("mask", b != nullptr)};
            if (b != nullptr) {
                use.conditions.push_back(type("m_prec", b));
            }
            break;
        case GGML_OP_ROPE:
            use.conditions = {type("type", a), number("mode", node->op_params[2]), flag("ff", node->src[2] != nullptr)};
            break;
        case GGML_OP_FLASH_ATTN_EXT:
            use.conditions = {type("type_KV", b) + "|" + type("type_K", b), flag("mask", node->src[3] != nullptr),
                              number("?hsk", a->ne[0]), number("?hsv", node->src[2]->ne[0])};
            break;
        case GGML_OP_PAD:
            use.conditions = {type("type", a), "circular=0", "lp0=0", "lp1=0",
                              ggml_is_contiguous(a) ? "v=0|tfrm=0" : "v=1|tfrm=1|tfrm=2"};
            break;
        case GGML_OP_ADD:
        case GGML_OP_MUL:
        case GGML_OP_DIV:
            use.conditions = {type("type", a), flag("?perm1", b->nb[0] != ggml_type_size(b->type))};
            break;
        case GGML_OP_SUM_ROWS:
            use.conditions = {type("type", a), flag("permute", !ggml_is_contiguous(a)), "slice=0"};
            break;
        case GGML_OP_UNARY: use.conditions = {type("type", a), flag("v", !ggml_is_contiguous(a))}; break;
        case GGML_OP_TOP_K: use.conditions = {type("type", a), number("k", node->ne[0])}; break;
        default: use.conditions = {type("type", a)}; break;
    }
    return use;
}

BackendTable::BackendTable(const std::string & csv) {
    std::ifstream in(csv);
    std::string   line;
    std::getline(in, line);
    if (line.rfind("\"backend_name\",\"op_name\",\"op_params\",\"test_mode\",\"supported\"", 0) != 0) {
        throw std::runtime_error(csv + " is not a table of operations");
    }
    while (std::getline(in, line)) {
        const std::vector<std::string> row = fields(line);
        if (row.size() >= 5 && row[3] == "support") {
            cases_[row[1]].push_back({"," + row[2] + ",", row[4] == "1"});
        }
    }
}

BackendTable::Answer BackendTable::ask(const OpUse & use) const {
    const auto found = cases_.find(use.op);
    if (found == cases_.end()) {
        return {};
    }
    const auto count = [&](bool strict) {
        Answer answer;
        for (const Case & entry : found->second) {
            const bool all = std::all_of(use.conditions.begin(), use.conditions.end(), [&](const std::string & text) {
                const bool optional = text[0] == '?';
                return (optional && !strict) || fits(entry.params, text.substr(optional ? 1 : 0));
            });
            answer.n_yes += all && entry.supported ? 1 : 0;
            answer.n_no += all && !entry.supported ? 1 : 0;
        }
        return answer;
    };
    const Answer answer = count(true);
    return answer.n_yes + answer.n_no > 0 ? answer : count(false);
}

std::string llama_cpp_dir() {
    const char *      from_env = std::getenv("BUOY_LLAMA_CPP_DIR");
    const std::string dir      = from_env != nullptr && *from_env != '\0' ? from_env : BUOY_LLAMA_CPP_TREE;
    return std::filesystem::exists(dir + "/docs/ops") ? dir : "";
}

} // namespace buoy::test
