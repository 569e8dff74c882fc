#include "size-label.h"

#include "base/file-name.h"
#include "buoy/message.h"

#include <cmath>
#include <regex>
#include <sstream>

namespace buoy {

namespace {

// Two digits at least.
std::string rounded(int64_t n_parameters) {
    const double       n     = static_cast<double>(n_parameters);
    const char *       unit  = n >= 1e12 ? "T" : n >= 1e9 ? "B" : n >= 1e6 ? "M" : "K";
    const double       value = n / (n >= 1e12 ? 1e12 : n >= 1e9 ? 1e9 : n >= 1e6 ? 1e6 : 1e3);
    std::ostringstream out;
    out.imbue(std::locale::classic());
    out.setf(std::ios::fixed);
    out.precision(std::lround(value) < 10 ? 1 : 0);
    out << value << unit;
    return out.str();
}

} // namespace

std::string size_label(const std::vector<PlannedTensor> & tensors) {
    int64_t n_common = 0;
    int64_t n_expert = 0; // in all experts
    int64_t n_last   = 1;
    for (const PlannedTensor & tensor : tensors) {
        if (tensor.n_last > 1) {
            n_expert += tensor.n_elements();
            n_last = std::max(n_last, tensor.n_last);
        } else {
            n_common += tensor.n_elements();
        }
    }
    return n_last > 1 ? concat(n_last, "x", rounded(n_common + n_expert / n_last)) : rounded(n_common);
}

std::string file_name(const std::string & name, const std::string & size_label, const std::string & encoding) {
    static const std::regex has_size("(^|-)([0-9]+x)?[0-9]+(\\.[0-9]+)?[KMBT](-|$)", std::regex::icase);

    constexpr size_t label_length_max = 32; // 8x7B takes 4

    const std::string base  = file_name_of(name, "model");
    const std::string label = file_name_part(size_label, label_length_max);
    const bool        sized = label.empty() || std::regex_search(base, has_size);
    return concat(base, sized ? "" : "-" + label, "-", encoding, ".gguf");
}

} // namespace buoy
