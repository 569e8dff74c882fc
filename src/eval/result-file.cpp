#include "eval/result-file.h"

#include "buoy/message.h"
#include "io/pending-file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace buoy {

ResultWriter::ResultWriter(const std::string & path, const QaHeader & header) : path_(path) {
    open();
    try {
        resume(header);
    } catch (...) {
        close(fd_);
        throw;
    }
}

ResultWriter::~ResultWriter() { close(fd_); }

void ResultWriter::open() {
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (fd_ < 0) {
        fail(printable(path_), ": cannot write: ", std::strerror(errno));
    }
    struct stat status = {};
    const bool  plain  = fstat(fd_, &status) == 0 && S_ISREG(status.st_mode);
    if (!plain || flock(fd_, LOCK_EX | LOCK_NB) != 0) {
        const bool busy = plain && errno == EWOULDBLOCK;
        close(fd_);
        fail(printable(path_), busy ? ": another run is writing it" : ": not a file that can be written to");
    }
}

void ResultWriter::resume(const QaHeader & header) {
    const std::string first  = header_line(header);
    struct stat       status = {};
    fstat(fd_, &status);
    std::string begin(std::min(first.size(), static_cast<size_t>(status.st_size)), '\0');
    const bool  readable = pread(fd_, begin.data(), begin.size(), 0) == static_cast<ssize_t>(begin.size());
    uint64_t    n_kept   = 0;
    // what a run wrote that ended within its first line is no reason to refuse
    if (!readable || begin.size() == first.size() || first.compare(0, begin.size(), begin) != 0) {
        ResultReader     reader(path_);
        const QaHeader & old = reader.header();
        check_same_settings(header, path_, old);
        if (old.shard != header.shard || old.n_shards != header.n_shards) {
            fail(printable(path_), ": contains shard ", old.shard + 1, "/", old.n_shards, ", expected ",
                 header.shard + 1, "/", header.n_shards);
        }
        for (QaResult result; reader.next(result);) {
            result.attention = nullptr;
            found_.push_back(std::move(result));
        }
        n_kept = reader.n_bytes();
    }
    if (ftruncate(fd_, static_cast<off_t>(n_kept)) != 0) {
        fail_runtime(printable(path_), ": cannot remove an incomplete last line: ", std::strerror(errno));
    }
    header_ =
        n_kept == 0 ? first : ""; // goes with the first answer: a run that can't begin leaves nothing to be refused
}

void ResultWriter::write(const std::string & text) {
    for (size_t at = 0; at < text.size();) {
        const ssize_t n = ::write(fd_, text.data() + at, text.size() - at);
        if (n < 0 && errno != EINTR) {
            fail_runtime(printable(path_), ": cannot write: ", std::strerror(errno));
        }
        at += n > 0 ? static_cast<size_t>(n) : 0;
    }
}

void ResultWriter::append(const QaResult & result) {
    write(header_ + result_line(result));
    header_.clear();
}

void ResultWriter::finish() {
    if (fsync(fd_) != 0) {
        fail_runtime(printable(path_), ": cannot write: ", std::strerror(errno));
    }
}

namespace {

// One shard, a result ahead.
class Shard {
public:
    explicit Shard(const std::string & path) : reader_(path) { advance(); }

    const ResultReader & reader() const { return reader_; }
    bool                 is_at(const std::string & model, size_t item) const {
                        return has_next_ && next_.model == model && next_.item == item;
    }
    void advance() { has_next_ = reader_.next(next_); }
    bool is_done() const { return !has_next_; }

private:
    ResultReader reader_;
    QaResult     next_;
    bool         has_next_ = false;
};

using Shards = std::vector<std::unique_ptr<Shard>>;

// In their order; each of them once.
Shards open_shards(const std::vector<std::string> & paths) {
    Shards shards;
    for (const std::string & path : paths) {
        auto             shard  = std::make_unique<Shard>(path);
        const QaHeader & header = shard->reader().header();
        if (shards.empty()) {
            shards.resize(header.n_shards);
        } else if (header.n_shards != shards.size()) {
            fail(printable(path), ": one of ", header.n_shards, " shards, expected one of ", shards.size());
        }
        if (shards[header.shard]) {
            fail(printable(path), ": shard ", header.shard + 1, "/", shards.size(), " is also in ",
                 printable(shards[header.shard]->reader().path()));
        }
        shards[header.shard] = std::move(shard);
    }
    for (size_t i = 0; i < shards.size(); i++) {
        if (!shards[i]) {
            fail("shard ", i + 1, "/", shards.size(), " is missing");
        }
        check_same_settings(shards[0]->reader().header(), shards[i]->reader().path(), shards[i]->reader().header());
    }
    return shards;
}

} // namespace

void merge_results(const std::vector<std::string> & paths, const std::string & output, bool force) {
    const Shards shards = open_shards(paths);
    QaHeader     header = shards.at(0)->reader().header();
    header.shard        = 0;
    header.n_shards     = 1;
    header.n_results    = 0;
    for (const auto & shard : shards) {
        header.n_results += shard->reader().header().n_results;
    }
    PendingFile file(output, force);
    const auto  write = [&](const std::string & line) { file.write(line.data(), line.size()); };
    write(header_line(header));
    for (const auto & model : header.settings.at("models")) {
        for (size_t item = 0; item < header.n_items; item++) {
            Shard & shard = *shards[item % shards.size()];
            while (shard.is_at(model.at("name"), item)) {
                write(shard.reader().line());
                shard.advance();
            }
        }
    }
    for (const auto & shard : shards) {
        const ResultReader & reader = shard->reader();
        if (!shard->is_done() || reader.n_read() != reader.header().n_results) {
            fail(printable(reader.path()), ": not complete, or not in order: ", reader.n_read(), " of ",
                 reader.header().n_results, " results");
        }
    }
    file.commit();
}

} // namespace buoy
