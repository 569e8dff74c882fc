#include "analysis/contents.h"
#include "buoy/message.h"

#include <cstdio>
#include <ostream>

namespace buoy::analysis {

namespace {

// As many digits as tell two neighbours of the type apart.
void append_number(std::string & line, float value, NpyType type) {
    char text[40];
    std::snprintf(text, sizeof(text), type == NpyType::f2 ? "%.5g" : "%.9g", static_cast<double>(value));
    line += text;
}

void append_number(std::string & line, int64_t value, NpyType) { line += std::to_string(value); }

template <typename T>
void write_lines(const NpyHeader & header, const std::vector<T> & data, int64_t index, std::ostream & out) {
    const std::vector<int64_t> & shape   = header.shape;
    const bool                   blocks  = shape.size() == 3;
    const int64_t                n_block = blocks ? shape[0] : 1;
    const int64_t                n_rows  = shape.size() >= 2 ? shape[shape.size() - 2] : shape.empty() ? 1 : shape[0];
    const int64_t                n_cols  = shape.size() >= 2 ? shape.back() : 1;
    for (int64_t block = index < 0 ? 0 : index; block < (index < 0 ? n_block : index + 1); block++) {
        for (int64_t row = 0; row < n_rows; row++) {
            std::string line = blocks && index < 0 ? std::to_string(block) + "," : "";
            for (int64_t column = 0; column < n_cols; column++) {
                line += column > 0 ? "," : "";
                append_number(line, data[static_cast<size_t>((block * n_rows + row) * n_cols + column)], header.type);
            }
            out << line << '\n';
            if (!out) {
                fail_runtime("standard output could not be written");
            }
        }
    }
}

} // namespace

void write_csv(const NpzReader & file, const NpzMember & member, int64_t index, std::ostream & out) {
    NpyHeader         header = file.header(member);
    const std::string where  = concat(printable(file.path()), ": ", printable(member.name, 200));
    if (header.shape.size() > 3) {
        fail(where, ": an array of ", header.shape.size(), " dimensions, expected at most 3");
    }
    if (index >= 0 && header.shape.size() != 3) {
        fail(where, ": `index` picks a matrix of an array with 3 dimensions, this one has ", header.shape.size());
    }
    if (index >= 0 && index >= header.shape[0]) {
        fail(where, ": there is no index ", index, ", expected 0 to ", header.shape[0] - 1);
    }
    if (header.type == NpyType::i4 || header.type == NpyType::i8) {
        write_lines(header, file.read_ints(member, header), index, out);
    } else {
        write_lines(header, file.read_floats(member, header), index, out);
    }
}

} // namespace buoy::analysis
