#include "io/gzip.h"

#include "base/checked.h"
#include "buoy/message.h"
#include "io/mapped-file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

namespace buoy {

namespace {

// Text shrinks to a third or a tenth; what unpacks to much more is made to fill the memory.
constexpr uint64_t text_max      = uint64_t{1} << 30;
constexpr uint64_t text_max_tiny = uint64_t{64} << 20;
constexpr uint64_t ratio_max     = 100;

struct Close {
    void operator()(gzFile_s * file) const { gzclose(file); }
};

} // namespace

std::string load_unpacked(const std::string & path) {
    const uint64_t size =
        MappedFile::open(path).size(); // also says what is wrong with a directory, a pipe or a missing file
    const uint64_t most = std::min(text_max, std::max(text_max_tiny, checked_mul(size, ratio_max).value_or(text_max)));
    const std::unique_ptr<gzFile_s, Close> file(gzopen(path.c_str(), "rb"));
    if (!file) {
        fail(printable(path), ": cannot open");
    }
    std::string             text;
    std::array<char, 65536> buffer{};
    int                     n = 0;
    while ((n = gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()))) > 0) {
        text.append(buffer.data(), static_cast<size_t>(n));
        if (text.size() > most) {
            fail(printable(path), ": its ", size, " bytes unpack to more than ", most);
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
