#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace buoy::test {

// A member of a zip archive, deflated; what is not set is what a correct archive would have.
struct ZipMember {
    std::string             name;
    std::string             data;
    std::optional<uint32_t> size; // unpacked, as the archive says it
};

std::string zip_bytes(const std::vector<ZipMember> & members);

} // namespace buoy::test
