#include "io/pending-file.h"

#include "buoy/files.h"
#include "buoy/message.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace buoy {

namespace {

namespace fs = std::filesystem;

std::string parent_of(const std::string & path) {
    const fs::path parent = fs::path(path).parent_path();
    return parent.empty() ? "." : parent.string();
}

class Descriptor {
public:
    explicit Descriptor(int fd) : fd_(fd) {}
    ~Descriptor() {
        if (fd_ >= 0) {
            close(fd_);
        }
    }
    Descriptor(const Descriptor &)             = delete;
    Descriptor & operator=(const Descriptor &) = delete;

    int get() const { return fd_; }

private:
    int fd_;
};

} // namespace

PendingFile::PendingFile(const std::string & path, bool force, unsigned mode, const LogCallback & log)
    : path_(path), temporary_(path + ".part"), force_(force) {
    check_target();
    if (create(mode)) {
        return;
    }
    remove_leftover();
    if (!create(mode)) { // somebody was faster
        fail(busy_message());
    }
    if (log) {
        log(LogLevel::notice,
            concat(printable(temporary_), ": replaced this file, which a killed run had left behind"));
    }
}

PendingFile::~PendingFile() {
    if (fd_ >= 0) {
        if (is_temporary(fd_)) { // while it is locked, so that it can't become anybody else's
            unlink(temporary_.c_str());
        }
        close(fd_);
    }
}

std::string PendingFile::busy_message() const {
    return concat(printable(path_), ": another run is writing this file (", printable(temporary_), " is in use)");
}

PendingFile::Lock PendingFile::lock(int fd) const {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        return Lock::taken;
    }
    return errno == EWOULDBLOCK ? Lock::busy : Lock::unknown;
}

bool PendingFile::is_temporary(int fd) const {
    struct stat open_file = {};
    struct stat named     = {};
    return fstat(fd, &open_file) == 0 && lstat(temporary_.c_str(), &named) == 0 && open_file.st_dev == named.st_dev &&
           open_file.st_ino == named.st_ino;
}

// False if the temporary exists already.
bool PendingFile::create(unsigned mode) {
    const int fd = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0) {
        if (errno == EEXIST) {
            return false;
        }
        fail(printable(path_), ": can't create the output: ", std::strerror(errno));
    }
    // between the two calls another run may have taken the empty file for a leftover
    if (lock(fd) == Lock::busy || !is_temporary(fd)) {
        close(fd);
        fail(busy_message());
    }
    fd_ = fd;
    return true;
}

void PendingFile::remove_leftover() {
    const Descriptor leftover(open(temporary_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat      info = {};
    if (leftover.get() < 0 && errno == ENOENT) {
        return;
    }
    if (leftover.get() < 0 || fstat(leftover.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
        fail(printable(path_), ": can't create the output: ", printable(temporary_),
             " exists, and buoy did not create it");
    }
    switch (lock(leftover.get())) {
        case Lock::busy: fail(busy_message());
        case Lock::unknown:
            fail(printable(path_), ": can't create the output: ", printable(temporary_),
                 " exists, and this file system can't tell whether a run is writing it; remove it if none does");
        case Lock::taken: break;
    }
    if (is_temporary(leftover.get()) && unlink(temporary_.c_str()) != 0) {
        fail(printable(path_), ": can't remove ", printable(temporary_), ": ", std::strerror(errno));
    }
}

void PendingFile::check_target() const {
    struct stat info = {};
    if (path_.empty()) {
        fail("no output file given");
    }
    if (lstat(path_.c_str(), &info) != 0) {
        return;
    }
    if (S_ISLNK(info.st_mode)) {
        fail(printable(path_), ": the output is a symbolic link; buoy never replaces those");
    }
    if (!S_ISREG(info.st_mode)) {
        fail(printable(path_), ": the output exists and is not a regular file");
    }
    if (!force_) {
        fail(printable(path_), ": the output exists (`force` replaces it)");
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

void PendingFile::truncate(uint64_t size) {
    const auto end = static_cast<off_t>(size);
    if (ftruncate(fd_, end) != 0 || lseek(fd_, end, SEEK_SET) != end) {
        fail_runtime(printable(path_), ": can't truncate the file to ", size, " bytes: ", std::strerror(errno));
    }
}

void PendingFile::commit() {
    if (fsync(fd_) != 0) {
        fail_runtime(printable(path_), ": can't write: ", std::strerror(errno));
    }
    check_target(); // somebody may have put a file there meanwhile
    if (!is_temporary(fd_)) {
        fail_runtime(printable(path_), ": ", printable(temporary_), " was removed or replaced while it was written");
    }
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

void write_file(const std::string & path, const std::string & bytes, bool force) {
    PendingFile file(path, force);
    file.write(bytes.data(), bytes.size());
    file.commit();
}

void check_output(const std::string & path, bool force) { const PendingFile file(path, force); }

} // namespace buoy
