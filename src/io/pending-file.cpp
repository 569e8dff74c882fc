#include "io/pending-file.h"

#include "buoy/error.h"
#include "io/printable.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace buoy {

namespace {

namespace fs = std::filesystem;

std::string parent_of(const std::string & path) {
    const fs::path parent = fs::path(path).parent_path();
    return parent.empty() ? "." : parent.string();
}

} // namespace

PendingFile::PendingFile(const std::string & path, bool force, unsigned mode) : path_(path), force_(force) {
    check_target();
    temporary_ = concat(path, ".tmp-", getpid());
    fd_        = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd_ < 0) {
        fail(printable(path), ": can't create the output: ", std::strerror(errno));
    }
}

PendingFile::~PendingFile() {
    if (fd_ >= 0) {
        close(fd_);
        unlink(temporary_.c_str());
    }
}

void PendingFile::check_target() const {
    struct stat info = {};
    if (path_.empty()) {
        fail("no output file given");
    }
    if (stat(path_.c_str(), &info) != 0) {
        return;
    }
    if (!S_ISREG(info.st_mode)) {
        fail(printable(path_), ": the output exists and is not a regular file");
    }
    if (!force_) {
        fail(printable(path_), ": the output exists (--force replaces it)");
    }
}

void PendingFile::expect_size(uint64_t size) const {
    std::error_code      error;
    const fs::space_info space = fs::space(parent_of(path_), error);
    if (!error && space.available < size) {
        fail_runtime(printable(path_), ": needs ", size, " bytes, the disk has ", space.available, " left");
    }
}

void PendingFile::write(const void * data, size_t size) {
    const char * at = static_cast<const char *>(data);
    while (size > 0) {
        const ssize_t n = ::write(fd_, at, size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            fail_runtime(printable(path_), ": can't write: ", std::strerror(n == 0 ? EIO : errno));
        }
        at += n;
        size -= static_cast<size_t>(n);
    }
}

void PendingFile::commit() {
    if (fsync(fd_) != 0) {
        fail_runtime(printable(path_), ": can't write: ", std::strerror(errno));
    }
    check_target(); // somebody may have put a file there meanwhile
    if (rename(temporary_.c_str(), path_.c_str()) != 0) {
        fail_runtime(printable(path_), ": can't rename the finished output: ", std::strerror(errno));
    }
    close(fd_);
    fd_ = -1;
    // The name is on disk only when its directory is; a file system that can't sync directories loses nothing but that.
    const int directory = open(parent_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0) {
        fsync(directory);
        close(directory);
    }
}

} // namespace buoy
