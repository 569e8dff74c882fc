#include "io/mapped-file.h"

#include "buoy/message.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace buoy {

namespace {

std::string error_text(int error) { return std::generic_category().message(error); }

const char * file_kind(mode_t mode) {
    if (S_ISDIR(mode)) {
        return "a directory";
    }
    if (S_ISFIFO(mode)) {
        return "a pipe";
    }
    if (S_ISCHR(mode) || S_ISBLK(mode)) {
        return "a device";
    }
    return S_ISSOCK(mode) ? "a socket" : "something else";
}

} // namespace

FileMapping::FileMapping(FileMapping && other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

FileMapping & FileMapping::operator=(FileMapping && other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

FileMapping::~FileMapping() {
    if (data_ != nullptr) {
        munmap(const_cast<uint8_t *>(data_), size_);
    }
}

MappedFile MappedFile::open(const std::string & path) {
    if (path.empty() || path.find('\0') != std::string::npos) {
        fail("expected a file name, found ", in_quotes(path));
    }
    int fd = -1;
    do {
        fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        fail(printable(path), ": cannot open: ", error_text(errno));
    }
    MappedFile file(fd, path);

    struct stat info = {};
    if (fstat(fd, &info) != 0) {
        fail(printable(path), ": cannot examine: ", error_text(errno));
    }
    if (!S_ISREG(info.st_mode)) {
        fail(printable(path), ": expected a regular file, found ", file_kind(info.st_mode));
    }
    if (info.st_size <= 0) {
        fail(printable(path), ": the file is empty");
    }
    file.size_ = static_cast<uint64_t>(info.st_size);
    return file;
}

MappedFile::MappedFile(MappedFile && other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), size_(std::exchange(other.size_, 0)) {}

MappedFile & MappedFile::operator=(MappedFile && other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(path_, other.path_);
    std::swap(size_, other.size_);
    return *this;
}

MappedFile::~MappedFile() {
    if (fd_ >= 0) {
        close(fd_);
    }
}

void MappedFile::read(uint64_t offset, void * data, size_t size) const {
    if (offset > size_ || size > size_ - offset) {
        fail(printable(path_), ": expected ", size, " bytes at offset ", offset, ", the file has ", size_);
    }
    auto * out = static_cast<uint8_t *>(data);
    while (size > 0) {
        const size_t  chunk = std::min<size_t>(size, size_t{1} << 30); // some systems refuse 2 GiB at once
        const ssize_t got   = pread(fd_, out, chunk, static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            fail_runtime(printable(path_), ": cannot read ", chunk, " bytes at offset ", offset, ": ",
                         error_text(errno));
        }
        if (got == 0) {
            fail_runtime(printable(path_), ": the file shrank while it was read: it had ", size_,
                         " bytes and now ends at or before ", offset);
        }
        out += got;
        offset += static_cast<uint64_t>(got);
        size -= static_cast<size_t>(got);
    }
}

FileMapping MappedFile::map() const {
    check_size();
    if (size_ > std::numeric_limits<size_t>::max()) {
        fail(printable(path_), ": ", size_, " bytes do not fit the address space");
    }
    const auto size = static_cast<size_t>(size_);
    void *     data = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd_, 0);
    if (data == MAP_FAILED) {
        fail_runtime(printable(path_), ": cannot map ", size_, " bytes: ", error_text(errno));
    }
    return {static_cast<const uint8_t *>(data), size};
}

void MappedFile::check_size() const {
    struct stat info = {};
    if (fstat(fd_, &info) != 0) {
        fail_runtime(printable(path_), ": cannot examine: ", error_text(errno));
    }
    const auto now = static_cast<uint64_t>(std::max<off_t>(info.st_size, 0));
    if (now < size_) {
        fail_runtime(printable(path_), ": the file shrank from ", size_, " to ", now, " bytes while in use");
    }
}

} // namespace buoy
