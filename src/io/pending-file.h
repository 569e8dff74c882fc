#pragma once

#include "buoy/log.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace buoy {

// A file that appears under its name only when it is complete: written to the sibling NAME.part, synced, renamed. Dropped without
// commit() it leaves nothing behind. The sibling is locked, so a second writer of the same name is refused, and one that nobody
// holds is what a killed process left: it is replaced, and the log hears of it.
class PendingFile {
public:
    // An existing output needs force; what is not a regular file, a link included, is never replaced.
    PendingFile(const std::string & path, bool force, unsigned mode = 0666, const LogCallback & log = {});
    ~PendingFile();
    PendingFile(const PendingFile &)             = delete;
    PendingFile & operator=(const PendingFile &) = delete;

    const std::string & path() const { return path_; }

    // Fails early if the disk can't hold that much.
    void expect_size(uint64_t size) const;
    void write(const void * data, size_t size);
    void truncate(uint64_t size); // goes on writing there
    void commit();

private:
    enum class Lock { taken, busy, unknown };

    void        check_target() const;
    bool        create(unsigned mode);
    void        remove_leftover();
    Lock        lock(int fd) const;
    bool        is_temporary(int fd) const; // and not some file that had its name before
    std::string busy_message() const;

    std::string path_;
    std::string temporary_;
    bool        force_ = false;
    int         fd_    = -1;
};

} // namespace buoy
