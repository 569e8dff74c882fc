#include "io/npy.h"

#include "io/pending-file.h"

namespace buoy {

namespace {

std::string npy_header(const std::vector<int64_t> & shape) {
    std::string dims;
    for (int64_t n : shape) {
        dims += std::to_string(n) + ", ";
    }
    std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + dims + "), }";
    // magic, version and length are 10 bytes; the whole header ends with a newline at a multiple of 64
    while ((dict.size() + 11) % 64 != 0) {
        dict += ' ';
    }
    dict += '\n';
    std::string header = {'\x93', 'N', 'U', 'M', 'P', 'Y', '\x01', '\x00'};
    header += static_cast<char>(dict.size() & 0xff);
    header += static_cast<char>(dict.size() >> 8);
    return header + dict;
}

} // namespace

void write_npy(const std::string & path, const std::vector<int64_t> & shape, const std::vector<float> & data) {
    PendingFile       file(path, true);
    const std::string header = npy_header(shape);
    file.write(header.data(), header.size());
    file.write(data.data(), data.size() * sizeof(float));
    file.commit();
}

} // namespace buoy
