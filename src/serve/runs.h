#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace buoy::serve {

// The recordings that a server keeps: files ID.npz of a directory, which together stay below a size.
class Runs {
public:
    // No directory: nothing can be recorded.
    Runs(std::string dir, uint64_t size_max) : dir_(std::move(dir)), size_max_(size_max) {}

    struct Entry {
        std::string id;
        uint64_t    n_bytes = 0;
        int64_t     created = 0; // seconds since 1970
    };

    std::vector<Entry> list() const; // the oldest first

    // The file of a run; throws HttpError where there is none.
    std::string find(const std::string & id) const;
    void        remove(const std::string & id);

    // A name for a new run: the one asked for, or a fresh one. Throws HttpError where it is taken or no name. It is held until release().
    std::string reserve(const std::optional<std::string> & asked);
    void        release(const std::string & id);

    std::string path(const std::string & id, const char * ending = ".npz") const;

    // What a new recording may need at most; once it is known what it will need, that is set aside for it. Throws HttpError where another
    // one took the room meanwhile.
    uint64_t room() const;
    void     set_aside(const std::string & id, uint64_t n_bytes);

private:
    uint64_t used() const; // with the lock

    const std::string               dir_;
    const uint64_t                  size_max_;
    mutable std::mutex              mutex_;
    std::map<std::string, uint64_t> reserved_; // being recorded, with the most that they need
};

} // namespace buoy::serve
