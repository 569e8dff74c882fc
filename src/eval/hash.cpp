#include "eval/hash.h"

#include "io/mapped-file.h"

#include <algorithm>
#include <cstdio>

namespace buoy {

uint64_t hash_number(std::string_view text) {
    uint64_t hash = 0xcbf29ce484222325ull;
    for (const char c : text) {
        hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
    }
    return hash;
}

std::string hash_text(std::string_view text) {
    char hex[17];
    std::snprintf(hex, sizeof(hex), "%016llx", static_cast<unsigned long long>(hash_number(text)));
    return hex;
}

std::string hash_file(const std::string & path) {
    constexpr uint64_t part  = 32u << 20;
    const MappedFile   file  = MappedFile::open(path);
    std::string        bytes = std::to_string(file.size()) + "\n";
    const auto         read  = [&](uint64_t first, uint64_t last) {
        const size_t at = bytes.size();
        bytes.resize(at + static_cast<size_t>(last - first));
        file.read(first, bytes.data() + at, static_cast<size_t>(last - first));
    };
    const uint64_t head = std::min(part, file.size());
    read(0, head);
    read(std::max(head, file.size() - std::min(part, file.size())), file.size());
    return hash_text(bytes);
}

} // namespace buoy
