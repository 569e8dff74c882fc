#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace buoy {

// A read-only view of a whole file, unmapped when destroyed. It outlives the MappedFile it came from.
class FileMapping {
public:
    FileMapping() = default;
    FileMapping(FileMapping && other) noexcept;
    FileMapping & operator=(FileMapping && other) noexcept;
    ~FileMapping();

    const uint8_t * data() const { return data_; }
    size_t          size() const { return size_; }

private:
    friend class MappedFile;
    FileMapping(const uint8_t * data, size_t size) : data_(data), size_(size) {}

    const uint8_t * data_ = nullptr;
    size_t          size_ = 0;
};

// A regular file, open for reading. Every problem is an Error that names the path.
//
// Somebody else may shrink the file at any time. read() notices and throws. Through a mapping nothing can notice: the
// kernel answers the access with SIGBUS, which a library must not catch. So parse with read(), call check_size() when
// the weights are in place, and copy them (no mmap) where the file is not to be trusted.
class MappedFile {
public:
    // Refuses what is not a regular, non-empty file, and never blocks on a FIFO.
    static MappedFile open(const std::string & path);

    MappedFile(MappedFile && other) noexcept;
    MappedFile & operator=(MappedFile && other) noexcept;
    ~MappedFile();

    const std::string & path() const { return path_; }
    uint64_t            size() const { return size_; } // when it was opened

    // Fills data with the size bytes at offset. Safe to call from several threads.
    void read(uint64_t offset, void * data, size_t size) const;

    FileMapping map() const;

    // Throws if the file is now shorter than when it was opened.
    void check_size() const;

private:
    MappedFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

    int         fd_ = -1;
    std::string path_;
    uint64_t    size_ = 0;
};

} // namespace buoy
