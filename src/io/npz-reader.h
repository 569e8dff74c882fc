#pragma once

#include "io/mapped-file.h"
#include "io/npy.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace buoy {

struct NpzMember {
    std::string name;
    uint64_t    offset      = 0; // of its local header
    uint64_t    end         = 0; // where the next record begins
    uint64_t    size_packed = 0;
    uint64_t    size        = 0;
    uint32_t    crc         = 0;
    bool        deflated    = false;
};

// A .npz archive, ours or one that numpy wrote, compressed or not. Opening reads the directory; members are read when asked for,
// and nothing of the file is believed before it is checked. Errors name the file and the member.
class NpzReader {
public:
    static NpzReader open(const std::string & path);

    const std::string &            path() const { return file_.path(); }
    uint64_t                       size() const { return file_.size(); }
    const std::vector<NpzMember> & members() const { return members_; } // in the directory's order

    // An array is found with or without its ".npy"; null if there is none.
    const NpzMember * find(const std::string & name) const;
    const NpzMember & get(const std::string & name) const; // an Error if there is none

    // May an array of this shape be there? Asked before memory is taken for it; throws what is wrong otherwise.
    using Accept = std::function<void(const NpyHeader & header)>;

    NpyHeader            header(const NpzMember & member) const;
    std::vector<float>   read_floats(const NpzMember & member, NpyHeader & header, const Accept & accept = {}) const;
    std::vector<int64_t> read_ints(const NpzMember & member, NpyHeader & header, const Accept & accept = {}) const;

    // A member as it is, at most 16 MiB. What numpy saved again as an array of bytes is taken out of it.
    std::string read_text(const NpzMember & member) const;

private:
    explicit NpzReader(MappedFile file) : file_(std::move(file)) {}

    MappedFile                    file_;
    std::vector<NpzMember>        members_;
    std::map<std::string, size_t> index_;
};

// The directory of a zip archive: every member is stored or deflated, lies inside the file, overlaps none, and has its own name. All of
// them together unpack to no more than memory is there for: 256 MiB, or 64 times the file where that is more.
std::vector<NpzMember> read_zip_directory(const MappedFile & file);

} // namespace buoy
