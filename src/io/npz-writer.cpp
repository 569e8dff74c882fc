#include "io/npz-writer.h"

#include "io/zip-format.h"

#include <algorithm>
#include <zlib.h>

namespace buoy {

namespace {

constexpr uint16_t made_by_unix = 3 << 8;
constexpr uint16_t date_1980    = 1 << 5 | 1; // the same run gives the same bytes
constexpr uint32_t file_mode    = 0100600u << 16;

class Record {
public:
    Record & u16(uint64_t value) { return number(value, 2); }
    Record & u32(uint64_t value) { return number(value, 4); }
    Record & u64(uint64_t value) { return number(value, 8); }
    Record & text(const std::string & value) {
        bytes_ += value;
        return *this;
    }

    const std::string & bytes() const { return bytes_; }

private:
    Record & number(uint64_t value, int n_bytes) {
        for (int i = 0; i < n_bytes; i++) {
            bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
        }
        return *this;
    }

    std::string bytes_;
};

bool needs64(uint64_t value) { return value >= zip::max32; }

size_t local_extra_size(uint64_t size) { return needs64(size) ? 4 + 16 : 0; }

size_t central_extra_size(uint64_t size, uint64_t offset) {
    const size_t fields = (needs64(size) ? 16 : 0) + (needs64(offset) ? 8u : 0u);
    return fields > 0 ? 4 + fields : 0;
}

bool end_needs64(uint64_t n_members, uint64_t size, uint64_t offset) {
    return n_members >= zip::max16 || needs64(size) || needs64(offset);
}

} // namespace

uint32_t crc32_of(const void * data, size_t size, uint32_t crc) {
    return static_cast<uint32_t>(crc32_z(crc, static_cast<const Bytef *>(data), size));
}

void NpzWriter::put(const std::string & bytes) { write(bytes.data(), bytes.size()); }

void NpzWriter::write(const void * data, size_t size) {
    file_.write(data, size);
    size_ += size;
}

void NpzWriter::add(const std::string & name, std::string_view data) {
    begin(name, data.size(), crc32_of(data.data(), data.size()));
    write(data.data(), data.size());
}

void NpzWriter::begin(const std::string & name, uint64_t size, uint32_t crc) {
    members_.push_back({name, size, size_, crc});
    const bool     zip64 = needs64(size);
    const uint64_t shown = std::min(size, zip::max32);
    Record         record;
    record.u32(zip::local_signature).u16(zip64 ? zip::version_zip64 : zip::version_plain).u16(0);
    record.u16(zip::method_stored).u16(0).u16(date_1980).u32(crc).u32(shown).u32(shown);
    record.u16(name.size()).u16(local_extra_size(size)).text(name);
    if (zip64) {
        record.u16(zip::extra64_id).u16(16).u64(size).u64(size);
    }
    put(record.bytes());
}

void NpzWriter::truncate_to(uint64_t size) {
    if (size >= size_) {
        return;
    }
    file_.truncate(size);
    size_ = size;
    while (!members_.empty() && members_.back().offset >= size) {
        members_.pop_back();
    }
}

void NpzWriter::finish() {
    const uint64_t start = size_;
    for (const Member & member : members_) {
        const size_t   extra = central_extra_size(member.size, member.offset);
        const uint64_t shown = std::min(member.size, zip::max32);
        const uint16_t needs = extra > 0 ? zip::version_zip64 : zip::version_plain;
        Record         record;
        record.u32(zip::central_signature).u16(made_by_unix | zip::version_zip64).u16(needs).u16(0);
        record.u16(zip::method_stored).u16(0).u16(date_1980).u32(member.crc).u32(shown).u32(shown);
        record.u16(member.name.size()).u16(extra).u16(0).u16(0).u16(0).u32(file_mode);
        record.u32(std::min(member.offset, zip::max32)).text(member.name);
        if (extra > 0) {
            record.u16(zip::extra64_id).u16(extra - 4);
            if (needs64(member.size)) {
                record.u64(member.size).u64(member.size);
            }
            if (needs64(member.offset)) {
                record.u64(member.offset);
            }
        }
        put(record.bytes());
    }
    const uint64_t size = size_ - start;
    const uint64_t n    = members_.size();
    Record         record;
    if (end_needs64(n, size, start)) {
        record.u32(zip::end64_signature).u64(zip::end64_size - 12).u16(made_by_unix | zip::version_zip64);
        record.u16(zip::version_zip64).u32(0).u32(0).u64(n).u64(n).u64(size).u64(start);
        record.u32(zip::locator64_signature).u32(0).u64(size_).u32(1);
    }
    record.u32(zip::end_signature).u16(0).u16(0).u16(std::min(n, zip::max16)).u16(std::min(n, zip::max16));
    record.u32(std::min(size, zip::max32)).u32(std::min(start, zip::max32)).u16(0);
    put(record.bytes());
}

void NpzSize::add(size_t name_length, uint64_t data_size) {
    directory_ += zip::central_size + name_length + central_extra_size(data_size, data_);
    data_ += zip::local_size + name_length + local_extra_size(data_size) + data_size;
    n_++;
}

void NpzSize::add_array(size_t name_length, NpyType type, const std::vector<int64_t> & shape) {
    uint64_t n = npy_item_size(type);
    for (int64_t extent : shape) {
        n *= static_cast<uint64_t>(extent);
    }
    add(name_length, npy_header(type, shape).size() + n);
}

uint64_t NpzSize::total() const {
    const bool zip64 = end_needs64(n_, directory_, data_);
    return data_ + directory_ + zip::end_size + (zip64 ? zip::end64_size + zip::locator64_size : 0);
}

} // namespace buoy
