#include "base/checked.h"
#include "buoy/message.h"
#include "io/npz-reader.h"
#include "io/zip-format.h"

#include <algorithm>
#include <optional>
#include <set>

namespace buoy {

namespace {

constexpr uint64_t directory_max  = 64ull << 20; // half a million members
constexpr uint64_t unpacked_max   = 256ull << 20;
constexpr uint64_t unpacked_ratio = 64; // attention shrinks to a half, where much of it is zero to a tenth

// Little-endian numbers of a record that was read whole.
class Fields {
public:
    Fields(const std::string & bytes, size_t at) : bytes_(bytes), at_(at) {}

    uint16_t u16() { return static_cast<uint16_t>(number(2)); }
    uint32_t u32() { return static_cast<uint32_t>(number(4)); }
    uint64_t u64() { return number(8); }
    void     skip(size_t n) { at_ += n; }

private:
    uint64_t number(size_t n) {
        uint64_t value = 0;
        for (size_t i = 0; i < n; i++) {
            value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes_[at_ + i])) << (8 * i);
        }
        at_ += n;
        return value;
    }

    const std::string & bytes_;
    size_t              at_;
};

struct Directory {
    uint64_t n_members = 0;
    uint64_t size      = 0;
    uint64_t offset    = 0;
};

std::string read_bytes(const MappedFile & file, uint64_t offset, uint64_t size) {
    std::string bytes(static_cast<size_t>(size), '\0');
    file.read(offset, bytes.data(), bytes.size());
    return bytes;
}

// The last record of the file, behind which there is nothing but its comment.
uint64_t find_end(const MappedFile & file) {
    const uint64_t    reach = std::min<uint64_t>(file.size(), zip::end_size + zip::max16);
    const std::string tail  = read_bytes(file, file.size() - reach, reach);
    for (size_t at = tail.size() >= zip::end_size ? tail.size() - zip::end_size + 1 : 0; at-- > 0;) {
        Fields fields(tail, at);
        if (fields.u32() == zip::end_signature) {
            fields.skip(zip::end_size - 6);
            if (at + zip::end_size + fields.u16() == tail.size()) {
                return file.size() - reach + at;
            }
        }
    }
    fail(printable(file.path()), ": not a complete .npz archive: it has no zip directory at its end");
}

// The zip64 record, where the short one can't say it all.
std::optional<Directory> read_end64(const MappedFile & file, uint64_t end) {
    if (end < zip::locator64_size) {
        return std::nullopt;
    }
    const std::string locator = read_bytes(file, end - zip::locator64_size, zip::locator64_size);
    Fields            fields(locator, 0);
    if (fields.u32() != zip::locator64_signature) {
        return std::nullopt;
    }
    const uint32_t disk    = fields.u32();
    const uint64_t offset  = fields.u64();
    const uint32_t n_disks = fields.u32();
    if (disk != 0 || n_disks > 1 || offset > end || end - offset < zip::end64_size + zip::locator64_size) {
        fail(printable(file.path()), ": broken .npz archive: it points to a zip64 directory at ", offset);
    }
    const std::string record = read_bytes(file, offset, zip::end64_size);
    Fields            end64(record, 0);
    if (end64.u32() != zip::end64_signature) {
        fail(printable(file.path()), ": broken .npz archive: no zip64 directory at ", offset);
    }
    end64.skip(20 + 8);
    Directory directory;
    directory.n_members = end64.u64();
    directory.size      = end64.u64();
    directory.offset    = end64.u64();
    return directory;
}

Directory locate(const MappedFile & file) {
    const uint64_t    end    = find_end(file);
    const std::string record = read_bytes(file, end, zip::end_size);
    Fields            fields(record, 4);
    if (fields.u16() != fields.u16()) {
        fail(printable(file.path()), ": .npz archives split into several parts are not supported");
    }
    fields.skip(2);
    Directory directory;
    directory.n_members = fields.u16();
    directory.size      = fields.u32();
    directory.offset    = fields.u32();
    if (directory.n_members == zip::max16 || directory.size == zip::max32 || directory.offset == zip::max32) {
        directory = read_end64(file, end).value_or(directory);
    }
    if (directory.offset > end || directory.size > end - directory.offset || directory.size > directory_max ||
        directory.n_members > directory.size / zip::central_size) {
        fail(printable(file.path()), ": broken .npz archive: a directory of ", directory.n_members, " members, ",
             directory.size, " bytes at ", directory.offset, ", does not fit the file");
    }
    return directory;
}

// Sizes and offset that did not fit their 32 bits, in this order, each only if it is needed.
bool read_extra64(const std::string & bytes, size_t at, size_t length, NpzMember & member) {
    const size_t end = at + length;
    while (end - at >= 4) {
        Fields         fields(bytes, at);
        const uint16_t id   = fields.u16();
        const uint16_t size = fields.u16();
        at += 4;
        if (size > end - at) {
            return false;
        }
        if (id == zip::extra64_id) {
            size_t left = size;
            for (uint64_t * value : {&member.size, &member.size_packed, &member.offset}) {
                if (*value == zip::max32) {
                    if (left < 8) {
                        return false;
                    }
                    *value = fields.u64();
                    left -= 8;
                }
            }
            return true;
        }
        at += size;
    }
    return true;
}

[[noreturn]] void broken_member(const MappedFile & file, const std::string & name, const char * what) {
    fail(printable(file.path()), ": broken .npz archive: member ", in_quotes(name), " ", what);
}

// One entry at `at`, which moves behind it.
NpzMember read_entry(const MappedFile & file, const std::string & bytes, size_t & at) {
    if (bytes.size() - at < zip::central_size) {
        fail(printable(file.path()), ": broken .npz archive: the directory ends inside a member");
    }
    Fields fields(bytes, at);
    if (fields.u32() != zip::central_signature) {
        fail(printable(file.path()), ": broken .npz archive: the directory lists a member that is not there");
    }
    fields.skip(4);
    const uint16_t flags  = fields.u16();
    const uint16_t method = fields.u16();
    fields.skip(4);
    NpzMember member;
    member.crc              = fields.u32();
    member.size_packed      = fields.u32();
    member.size             = fields.u32();
    const size_t name_size  = fields.u16();
    const size_t extra_size = fields.u16();
    const size_t comment    = fields.u16();
    const size_t disk       = fields.u16();
    fields.skip(6);
    member.offset = fields.u32();
    at += zip::central_size;
    if (name_size + extra_size + comment > bytes.size() - at) {
        fail(printable(file.path()), ": broken .npz archive: the directory ends inside a member");
    }
    member.name     = bytes.substr(at, name_size);
    member.deflated = method == zip::method_deflate;
    if (!read_extra64(bytes, at + name_size, extra_size, member)) {
        broken_member(file, member.name, "has a damaged zip64 record");
    }
    at += name_size + extra_size + comment;
    if ((flags & 1) != 0) {
        broken_member(file, member.name, "is encrypted");
    }
    if (method != zip::method_stored && method != zip::method_deflate) {
        broken_member(file, member.name, "is neither stored nor deflated");
    }
    if (disk != 0 && disk != zip::max16) {
        broken_member(file, member.name, "is in another file");
    }
    if (!member.deflated && member.size != member.size_packed) {
        broken_member(file, member.name, "is stored, but its two sizes differ");
    }
    // deflate makes nothing smaller than by 1032
    if (member.deflated && member.size / 1032 > member.size_packed) {
        broken_member(file, member.name, "claims more data than it can hold");
    }
    return member;
}

// A small archive that fills the memory is not a recording.
void check_unpacked_size(const MappedFile & file, const std::vector<NpzMember> & members) {
    const uint64_t most = std::max(unpacked_max, checked_mul(file.size(), unpacked_ratio).value_or(UINT64_MAX));
    std::optional<uint64_t> total = 0;
    for (const NpzMember & member : members) {
        total = total ? checked_add(*total, member.size) : total;
    }
    if (!total || *total > most) {
        fail(printable(file.path()), ": its ", file.size(), " bytes claim to unpack to ",
             total ? std::to_string(*total) : "more than 2^64", ", expected at most ", most);
    }
}

} // namespace

std::vector<NpzMember> read_zip_directory(const MappedFile & file) {
    const Directory        directory = locate(file);
    const std::string      bytes     = read_bytes(file, directory.offset, directory.size);
    std::vector<NpzMember> members;
    std::set<std::string>  names;
    size_t                 at = 0;
    for (uint64_t i = 0; i < directory.n_members; i++) {
        members.push_back(read_entry(file, bytes, at));
        if (!names.insert(members.back().name).second) {
            broken_member(file, members.back().name, "appears twice");
        }
    }
    if (at != bytes.size()) {
        fail(printable(file.path()), ": broken .npz archive: the directory continues after its ", directory.n_members,
             " members");
    }
    std::vector<NpzMember *> by_offset;
    for (NpzMember & member : members) {
        by_offset.push_back(&member);
    }
    std::sort(by_offset.begin(), by_offset.end(),
              [](const NpzMember * a, const NpzMember * b) { return a->offset < b->offset; });
    for (size_t i = 0; i < by_offset.size(); i++) {
        NpzMember & member = *by_offset[i];
        member.end         = i + 1 < by_offset.size() ? by_offset[i + 1]->offset : directory.offset;
        const auto start   = checked_add(member.offset, zip::local_size + member.name.size());
        const auto last    = start ? checked_add(*start, member.size_packed) : start;
        if (!last || *last > member.end) {
            broken_member(file, member.name, "overlaps what follows it or lies outside the file");
        }
    }
    check_unpacked_size(file, members);
    return members;
}

} // namespace buoy
