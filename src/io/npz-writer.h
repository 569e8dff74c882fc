#pragma once

#include "io/npy.h"
#include "io/pending-file.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace buoy {

uint32_t crc32_of(const void * data, size_t size, uint32_t crc = 0);

// Writes a .npz archive from front to back: stored members whose size and checksum are known before their data. Zip64 records
// appear only where a size or an offset needs them.
class NpzWriter {
public:
    explicit NpzWriter(PendingFile & file) : file_(file) {}

    uint64_t size() const { return size_; } // bytes written so far

    void add(const std::string & name, std::string_view data);

    // The same in pieces, which must add up to the size.
    void begin(const std::string & name, uint64_t size, uint32_t crc);
    void write(const void * data, size_t size);

    // Cuts off every member that begins at or behind that many bytes.
    void truncate_to(uint64_t size);

    // Writes the directory; nothing can follow it.
    void finish();

private:
    struct Member {
        std::string name;
        uint64_t    size   = 0;
        uint64_t    offset = 0;
        uint32_t    crc    = 0;
    };

    void put(const std::string & bytes);

    PendingFile &       file_;
    uint64_t            size_ = 0;
    std::vector<Member> members_;
};

// What an archive will take, added up member by member in the order of writing.
class NpzSize {
public:
    void     add(size_t name_length, uint64_t data_size);
    void     add_array(size_t name_length, NpyType type, const std::vector<int64_t> & shape);
    uint64_t total() const; // with the directory

private:
    uint64_t data_      = 0;
    uint64_t directory_ = 0;
    uint64_t n_         = 0;
};

} // namespace buoy
