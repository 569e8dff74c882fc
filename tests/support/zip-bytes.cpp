#include "support/zip-bytes.h"

#include "support/gguf-bytes.h"

#include <zlib.h>

#include <stdexcept>

namespace buoy::test {

namespace {

std::string deflated(const std::string & data) {
    z_stream stream = {};
    if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
        throw std::runtime_error("zlib");
    }
    std::string out(deflateBound(&stream, static_cast<uLong>(data.size())), '\0');
    stream.next_in   = reinterpret_cast<Bytef *>(const_cast<char *>(data.data()));
    stream.avail_in  = static_cast<uInt>(data.size());
    stream.next_out  = reinterpret_cast<Bytef *>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    deflate(&stream, Z_FINISH);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
}

} // namespace

std::string zip_bytes(const std::vector<ZipMember> & members) {
    std::string out, directory;
    for (const ZipMember & member : members) {
        const std::string packed = deflated(member.data);
        const auto        crc    = static_cast<uint32_t>(
            crc32(0, reinterpret_cast<const Bytef *>(member.data.data()), static_cast<uInt>(member.data.size())));
        const auto size = member.size.value_or(static_cast<uint32_t>(member.data.size()));
        const auto name = static_cast<uint16_t>(member.name.size());
        // version, flags, method, time, date; what both records have
        const std::string common = le<uint16_t>(20) + le<uint16_t>(0) + le<uint16_t>(8) + le<uint32_t>(0) + le(crc) +
                                   le(static_cast<uint32_t>(packed.size())) + le(size) + le(name) + le<uint16_t>(0);
        directory += le<uint32_t>(0x02014b50) + le<uint16_t>(20) + common + le<uint16_t>(0) + le<uint16_t>(0) +
                     le<uint16_t>(0) + le<uint32_t>(0) + le(static_cast<uint32_t>(out.size())) + member.name;
        out += le<uint32_t>(0x04034b50) + common + member.name + packed;
    }
    const auto n = static_cast<uint16_t>(members.size());
    return out + directory + le<uint32_t>(0x06054b50) + le<uint32_t>(0) + le(n) + le(n) +
           le(static_cast<uint32_t>(directory.size())) + le(static_cast<uint32_t>(out.size())) + le<uint16_t>(0);
}

} // namespace buoy::test
