#include "output.h"

#include "buoy/message.h"
#include "imatrix.h"
#include "io/pending-file.h"
#include "tensor-data.h"

#include <cstdio>
#include <future>
#include <memory>

namespace buoy {

namespace {

constexpr size_t SPLITS_MAX = 9999;

uint64_t padded(uint64_t size) {
    return (size + GgufWriter::alignment - 1) / GgufWriter::alignment * GgufWriter::alignment;
}

std::string split_path(const std::string & path, size_t i, size_t n) {
    const std::string suffix = ".gguf";
    const bool        named  = path.size() > suffix.size() && path.compare(path.size() - suffix.size(), 5, suffix) == 0;
    char              number[32];
    std::snprintf(number, sizeof(number), "-%05zu-of-%05zu", i + 1, n);
    return concat(named ? path.substr(0, path.size() - suffix.size()) : path, number, suffix);
}

// Writes on a thread of its own while the next piece is made.
class Writer {
public:
    explicit Writer(PendingFile & file) : file_(file) {}
    ~Writer() {
        if (pending_.valid()) {
            pending_.wait();
        }
    }
    Writer(const Writer &)             = delete;
    Writer & operator=(const Writer &) = delete;

    // Returns a buffer that is free again.
    std::vector<char> write(std::vector<char> piece) {
        std::vector<char> free = finish();
        pending_               = std::async(std::launch::async, [this, bytes = std::move(piece)]() mutable {
            file_.write(bytes.data(), bytes.size());
            return std::move(bytes);
        });
        return free;
    }

    std::vector<char> finish() {
        if (pending_.valid()) {
            spare_ = pending_.get();
        }
        return std::move(spare_);
    }

    void pad(uint64_t size) {
        const std::vector<char> zeros(static_cast<size_t>(size));
        spare_ = finish();
        file_.write(zeros.data(), zeros.size());
    }

private:
    PendingFile &                  file_;
    std::future<std::vector<char>> pending_;
    std::vector<char>              spare_; // large buffers are costly to get again and again
};

void report_health(const PlannedTensor & tensor, const TensorHealth & health, const LogCallback & log) {
    if (!log || tensor.parts.empty()) {
        return;
    }
    const std::string name = printable(tensor.parts.front().name);
    if (health.n_not_finite > 0) {
        log(LogLevel::warn, concat("tensor ", name, ": ", health.n_not_finite, " values are NaN or infinite"));
    }
    if (health.n_overflow > 0) {
        log(LogLevel::warn, concat("tensor ", name, ": ", health.n_overflow, " values are too large for ",
                                   ggml_type_name(tensor.type), " and became infinite"));
    }
}

GgufWriter header_of(const ConvertInput & input, size_t i, const std::vector<OutputFile> & files) {
    GgufWriter header = i == 0 ? input.header.copy() : GgufWriter();
    if (files.size() > 1) {
        header.set_split(static_cast<uint16_t>(i), static_cast<uint16_t>(files.size()),
                         static_cast<int32_t>(input.tensors.size()));
    }
    for (size_t t = files[i].first; t < files[i].end; ++t) {
        const PlannedTensor & tensor = input.tensors[t];
        header.add_tensor(tensor.name, tensor.type, tensor.ne());
    }
    return header;
}

} // namespace

std::vector<OutputFile> plan_output(const ConvertInput & input, const std::string & path, uint64_t split_max) {
    constexpr uint64_t      other_keys = 512; // of a further file: which one it is; and what pads a header
    std::vector<OutputFile> files(1);
    uint64_t                size = input.header.copy().bytes().size() + other_keys;
    for (size_t t = 0; t < input.tensors.size(); ++t) {
        const uint64_t n_bytes = padded(input.tensors[t].n_bytes());
        const uint64_t n_info  = input.tensors[t].name.size() + 64; // its entry in the header
        if (split_max > 0 && files.back().end > files.back().first && size + n_bytes + n_info > split_max) {
            files.push_back({"", {}, t, t, 0});
            size = other_keys;
        }
        size += n_bytes + n_info;
        files.back().end = t + 1;
        files.back().n_bytes += n_bytes;
    }
    if (files.size() > SPLITS_MAX) {
        fail("`split_max` ", split_max, ": makes ", files.size(), " files, expected at most ", SPLITS_MAX);
    }
    for (size_t i = 0; i < files.size(); ++i) {
        files[i].path   = files.size() == 1 ? path : split_path(path, i, files.size());
        files[i].header = header_of(input, i, files).bytes();
        files[i].n_bytes += files[i].header.size();
    }
    return files;
}

void write_output(const std::vector<OutputFile> & files, const std::vector<PlannedTensor> & tensors,
                  const WriteParams & params) {
    std::vector<std::unique_ptr<PendingFile>> pending;
    uint64_t                                  n_total = 0;
    for (const OutputFile & file : files) {
        pending.push_back(std::make_unique<PendingFile>(file.path, params.force, 0666, params.log));
        n_total += file.n_bytes;
    }
    pending.front()->expect_size(n_total);

    std::vector<char> buffer;
    uint64_t          n_done  = 0;
    const auto        advance = [&](uint64_t size) {
        n_done += size;
        if (params.progress && !params.progress(n_done, n_total)) {
            fail_runtime(printable(files.front().path), ": cancelled");
        }
    };
    for (size_t i = 0; i < files.size(); ++i) {
        Writer writer(*pending[i]);
        writer.write(files[i].header);
        advance(files[i].header.size());
        for (size_t t = files[i].first; t < files[i].end; ++t) {
            const PlannedTensor & tensor  = tensors[t];
            const float *         weights = params.imatrix == nullptr ? nullptr : params.imatrix->find(tensor);
            const TensorHealth    health =
                stream_tensor(tensor, weights, params.n_threads, buffer, [&](std::vector<char> piece) {
                    const size_t      size = piece.size();
                    std::vector<char> free = writer.write(std::move(piece));
                    advance(size);
                    return free;
                });
            writer.pad(padded(tensor.n_bytes()) - tensor.n_bytes());
            report_health(tensor, health, params.log);
        }
        writer.finish();
    }
    for (size_t i = files.size(); i > 0; --i) { // the first file's name is the one people open
        pending[i - 1]->commit();
    }
}

} // namespace buoy
