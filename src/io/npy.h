#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace buoy {

enum class NpyType {
    f2,
    f4,
    f8,
    i4,
    i8,
    text, // bytes of any length, as numpy keeps a string of them
};

// What stands before the data of a .npy file. Little-endian, C order.
struct NpyHeader {
    NpyType              type = NpyType::f4;
    std::vector<int64_t> shape;         // outermost first; empty for a single number
    size_t               item_size = 0; // bytes of an element

    uint64_t n_elements() const; // those of a parsed header are known not to overflow, nor is their size
};

const char * npy_type_name(NpyType type); // float16, …
size_t       npy_item_size(NpyType type);

// Magic, version 1.0, description, padded to a multiple of 64 bytes.
std::string npy_header(NpyType type, const std::vector<int64_t> & shape);
// The same for types that we write and do not read: "|O" (a pickle follows), "<U12".
std::string npy_header_of(const std::string & descr, const std::vector<int64_t> & shape);

// The size of the header that the first bytes of a .npy file announce, those 12 included.
constexpr size_t   npy_prefix_size = 12;
constexpr uint64_t npy_header_max  = 1 << 16;
uint64_t           npy_header_size(const std::string & prefix, const std::string & where);

// Reads a whole header; an Error that begins with `where` for what is not known: big-endian, Fortran order, other types.
NpyHeader parse_npy_header(const std::string & bytes, const std::string & where);

} // namespace buoy
