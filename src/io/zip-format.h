#pragma once

#include <cstddef>
#include <cstdint>

// The records of a zip archive (PKWARE's APPNOTE 6.3), as far as .npz files have them.

namespace buoy::zip {

constexpr uint32_t local_signature     = 0x04034b50;
constexpr uint32_t central_signature   = 0x02014b50;
constexpr uint32_t end_signature       = 0x06054b50;
constexpr uint32_t end64_signature     = 0x06064b50;
constexpr uint32_t locator64_signature = 0x07064b50;

constexpr size_t local_size     = 30; // without name and extra fields
constexpr size_t central_size   = 46; // the same, and without comment
constexpr size_t end_size       = 22; // without comment
constexpr size_t end64_size     = 56;
constexpr size_t locator64_size = 20;

constexpr uint16_t extra64_id     = 1;
constexpr uint16_t version_plain  = 20;
constexpr uint16_t version_zip64  = 45;
constexpr uint16_t method_stored  = 0;
constexpr uint16_t method_deflate = 8;

// A field that holds this value, or more than fits, is found in the zip64 record instead.
constexpr uint64_t max16 = 0xffff;
constexpr uint64_t max32 = 0xffffffff;

} // namespace buoy::zip
