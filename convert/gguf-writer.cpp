#include "gguf-writer.h"

#include "buoy/error.h"
#include "io/printable.h"

#include <gguf.h>

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

PendingFile::PendingFile(const std::string & path, bool force) : path_(path), force_(force) {
    check_target();
    temporary_ = concat(path, ".tmp-", getpid());
    fd_        = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
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

void GgufHeader::Free::operator()(gguf_context * context) const { gguf_free(context); }

GgufHeader::GgufHeader() : context_(gguf_init_empty()) {}

void GgufHeader::set(const std::string & key, const std::string & value) {
    gguf_set_val_str(context_.get(), key.c_str(), value.c_str());
}

void GgufHeader::set(const std::string & key, bool value) { gguf_set_val_bool(context_.get(), key.c_str(), value); }

void GgufHeader::set(const std::string & key, uint32_t value) { gguf_set_val_u32(context_.get(), key.c_str(), value); }

void GgufHeader::set(const std::string & key, float value) { gguf_set_val_f32(context_.get(), key.c_str(), value); }

void GgufHeader::set(const std::string & key, const std::vector<std::string> & values) {
    std::vector<const char *> pointers;
    pointers.reserve(values.size());
    for (const std::string & value : values) {
        pointers.push_back(value.c_str());
    }
    gguf_set_arr_str(context_.get(), key.c_str(), pointers.data(), pointers.size());
}

void GgufHeader::set(const std::string & key, const std::vector<int32_t> & values) {
    gguf_set_arr_data(context_.get(), key.c_str(), GGUF_TYPE_INT32, values.data(), values.size());
}

void GgufHeader::set(const std::string & key, const std::vector<float> & values) {
    gguf_set_arr_data(context_.get(), key.c_str(), GGUF_TYPE_FLOAT32, values.data(), values.size());
}

void GgufHeader::add_tensors(const std::vector<PlannedTensor> & tensors) {
    const ggml_init_params params = {ggml_tensor_overhead() * (tensors.size() + 1), nullptr, true};

    const std::unique_ptr<ggml_context, decltype(&ggml_free)> names(ggml_init(params), ggml_free);
    for (const PlannedTensor & tensor : tensors) {
        const int64_t ne[2] = {tensor.row_size_ne(), tensor.n_rows};
        ggml_tensor * entry = ggml_new_tensor(names.get(), tensor.type, tensor.n_dims, ne);
        ggml_set_name(entry, tensor.name.c_str());
        gguf_add_tensor(context_.get(), entry);
    }
}

std::vector<char> GgufHeader::bytes() const {
    std::vector<char> bytes(gguf_get_meta_size(context_.get()));
    gguf_get_meta_data(context_.get(), bytes.data());
    return bytes;
}

} // namespace buoy
