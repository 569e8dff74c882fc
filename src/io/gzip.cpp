#include "io/gzip.h"

#include "buoy/message.h"
#include "io/mapped-file.h"

#include <zlib.h>

#include <array>
#include <cstdint>
#include <memory>

namespace buoy {

namespace {

constexpr size_t text_max = size_t{1} << 30;

struct Close {
    void operator()(gzFile_s * file) const { gzclose(file); }
};

} // namespace

std::string load_unpacked(const std::string & path) {
    MappedFile::open(path); // says what is wrong with a directory, a pipe or a missing file
    const std::unique_ptr<gzFile_s, Close> file(gzopen(path.c_str(), "rb"));
    if (!file) {
        fail(printable(path), ": cannot open");
    }
    std::string             text;
    std::array<char, 65536> buffer{};
    int                     n = 0;
    while ((n = gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()))) > 0) {
        text.append(buffer.data(), static_cast<size_t>(n));
        if (text.size() > text_max) {
            fail(printable(path), ": the text is longer than ", text_max, " bytes");
        }
    }
    int          code   = Z_OK;
    const char * reason = gzerror(file.get(), &code);
    if (n < 0 || code != Z_OK) {
        fail(printable(path), ": cannot unpack: ", printable(reason));
    }
    return text;
}

} // namespace buoy
