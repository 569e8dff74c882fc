#include "serve/runs.h"

#include "buoy/message.h"
#include "buoy/parse.h"
#include "serve/http.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

namespace fs = std::filesystem;

namespace buoy::serve {

namespace {

bool is_name(const std::string & id) {
    return !id.empty() && id.size() <= 64 && std::all_of(id.begin(), id.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    });
}

int64_t seconds_of(fs::file_time_type time) {
    const auto age = fs::file_time_type::clock::now() - time;
    const auto now = std::chrono::system_clock::now();
    return std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch() - age).count();
}

} // namespace

std::string Runs::path(const std::string & id, const char * ending) const {
    return (fs::path(dir_) / (id + ending)).string();
}

std::vector<Runs::Entry> Runs::list() const {
    std::vector<Entry> entries;
    std::error_code    missing;
    for (fs::directory_iterator it(dir_, missing), end; !missing && it != end; it.increment(missing)) {
        std::error_code   gone;
        const std::string id = it->path().stem().string();
        if (it->path().extension() == ".npz" && is_name(id) && it->is_regular_file(gone)) {
            const uint64_t n_bytes = it->file_size(gone);
            const auto     time    = it->last_write_time(gone);
            if (!gone) {
                entries.push_back({id, n_bytes, seconds_of(time)});
            }
        }
    }
    std::sort(entries.begin(), entries.end(), [](const Entry & a, const Entry & b) {
        return a.created != b.created ? a.created < b.created : a.id < b.id;
    });
    return entries;
}

std::string Runs::find(const std::string & id) const {
    std::error_code unknown;
    if (dir_.empty() || !is_name(id) || !fs::is_regular_file(path(id), unknown)) {
        throw HttpError({.status = 404, .message = concat("there is no run ", in_quotes(id)), .code = "not_found"});
    }
    return path(id);
}

void Runs::remove(const std::string & id) {
    const std::string file = find(id);
    std::error_code   ignored;
    fs::remove(file, ignored);
    fs::remove(path(id, ".html"), ignored);
}

std::string Runs::reserve(const std::optional<std::string> & asked) {
    if (dir_.empty()) {
        throw HttpError({.message = "this server keeps no recordings; start it with --runs-dir", .param = "record"});
    }
    if (asked && !is_name(*asked)) {
        throw HttpError({.message = concat("record: ", in_quotes(*asked),
                                           " is no name for a run; use letters, digits, - and _, at most 64"),
                         .param   = "record"});
    }
    const std::string     id = asked ? *asked : random_name("run-");
    const std::lock_guard lock(mutex_);
    std::error_code       unknown;
    if (reserved_.contains(id) || fs::exists(path(id), unknown)) {
        throw HttpError({.status  = 409,
                         .message = concat("there is a run ", in_quotes(id), " already"),
                         .param   = "record",
                         .code    = "run_exists"});
    }
    reserved_[id] = 0;
    return id;
}

void Runs::release(const std::string & id) {
    const std::lock_guard lock(mutex_);
    reserved_.erase(id);
}

uint64_t Runs::used() const {
    uint64_t n = 0;
    for (const Entry & entry : list()) {
        n += entry.n_bytes;
    }
    for (const auto & [id, n_bytes] : reserved_) {
        n += n_bytes;
    }
    return n;
}

uint64_t Runs::room() const {
    const std::lock_guard lock(mutex_);
    return size_max_ - std::min(size_max_, used());
}

void Runs::set_aside(const std::string & id, uint64_t n_bytes) {
    const std::lock_guard lock(mutex_);
    if (used() + n_bytes > size_max_) {
        throw HttpError({.status  = 507,
                         .message = concat("the recording could need ", size_text(n_bytes), ", and the runs may take ",
                                           size_text(size_max_), " together (--runs-max-size); delete some"),
                         .param   = "record",
                         .code    = "no_room"});
    }
    reserved_[id] = n_bytes;
}

} // namespace buoy::serve
