#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace buoy {

// A file that appears under its name only when it is complete: written to a sibling, synced, renamed. Dropped without
// commit() it leaves nothing behind.
class PendingFile {
public:
    // An existing output needs force; what is not a regular file is never replaced.
    PendingFile(const std::string & path, bool force, unsigned mode = 0666);
    ~PendingFile();
    PendingFile(const PendingFile &)             = delete;
    PendingFile & operator=(const PendingFile &) = delete;

    // Fails early if the disk can't hold that much.
    void expect_size(uint64_t size) const;
    void write(const void * data, size_t size);
    void commit();

private:
    void check_target() const;

    std::string path_;
    std::string temporary_;
    bool        force_ = false;
    int         fd_    = -1;
};

} // namespace buoy
