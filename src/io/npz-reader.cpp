#include "io/npz-reader.h"

#include "buoy/message.h"
#include "io/npz-writer.h"
#include "io/zip-format.h"

#include <ggml.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <zlib.h>

namespace buoy {

namespace {

constexpr uint64_t text_max   = 16ull << 20;
constexpr size_t   chunk_size = 1 << 20;

struct InflateEnd {
    void operator()(z_stream * stream) const {
        inflateEnd(stream);
        delete stream;
    }
};

// The unpacked bytes of one member from front to back.
class MemberStream {
public:
    MemberStream(const MappedFile & file, const NpzMember & member) : file_(file), member_(member) {
        std::array<uint8_t, zip::local_size> local{};
        file.read(member.offset, local.data(), local.size());
        const auto u16 = [&](size_t at) { return static_cast<size_t>(local[at] | local[at + 1] << 8); };
        if ((u16(0) | u16(2) << 16) != zip::local_signature || u16(26) != member.name.size()) {
            fail(where(), ": broken .npz archive: the member has no header at ", member.offset);
        }
        at_ = member.offset + zip::local_size + u16(26) + u16(28);
        if (at_ > member.end || member.size_packed > member.end - at_) {
            fail(where(), ": broken .npz archive: the member overlaps what follows it");
        }
        packed_left_ = member.size_packed;
        left_        = member.size;
        if (member.deflated) {
            stream_.reset(new z_stream{});
            if (inflateInit2(stream_.get(), -MAX_WBITS) != Z_OK) {
                fail_runtime(where(), ": zlib could not be initialised");
            }
            input_.resize(static_cast<size_t>(std::min<uint64_t>(member.size_packed, chunk_size)));
        }
    }

    uint64_t left() const { return left_; }

    std::string where() const { return concat(printable(file_.path()), ": ", printable(member_.name, 200)); }

    // size bytes of those left; with the last ones the checksum is compared.
    void read(void * data, size_t size) {
        if (size > left_) {
            fail(where(), ": the array ends after ", left_, " of ", size, " bytes");
        }
        if (member_.deflated) {
            inflate_into(static_cast<uint8_t *>(data), size);
        } else {
            file_.read(at_, data, size);
            at_ += size;
        }
        crc_ = crc32_of(data, size, crc_);
        left_ -= size;
        if (left_ == 0 && crc_ != member_.crc) {
            fail(where(), ": the checksum is wrong, the file is damaged");
        }
    }

private:
    void inflate_into(uint8_t * data, size_t size) {
        while (size > 0) {
            if (stream_->avail_in == 0 && packed_left_ > 0) {
                const auto n = static_cast<size_t>(std::min<uint64_t>(packed_left_, input_.size()));
                file_.read(at_, input_.data(), n);
                at_ += n;
                packed_left_ -= n;
                stream_->next_in  = input_.data();
                stream_->avail_in = static_cast<uInt>(n);
            }
            const auto room    = static_cast<uInt>(std::min<size_t>(size, 1u << 30));
            stream_->next_out  = data;
            stream_->avail_out = room;
            const int    code  = inflate(stream_.get(), Z_NO_FLUSH);
            const size_t got   = room - stream_->avail_out;
            data += got;
            size -= got;
            if (code != Z_OK && !(code == Z_STREAM_END && size == 0)) {
                fail(where(), ": the compressed data is damaged");
            }
        }
    }

    const MappedFile &                    file_;
    const NpzMember &                     member_;
    uint64_t                              at_          = 0;
    uint64_t                              packed_left_ = 0;
    uint64_t                              left_        = 0;
    uint32_t                              crc_         = 0;
    std::unique_ptr<z_stream, InflateEnd> stream_;
    std::vector<uint8_t>                  input_;
};

NpyHeader read_header(MemberStream & stream) {
    std::string bytes(npy_prefix_size, '\0');
    if (stream.left() < npy_prefix_size) {
        fail(stream.where(), ": not a .npy array");
    }
    stream.read(bytes.data(), bytes.size());
    bytes.resize(static_cast<size_t>(npy_header_size(bytes, stream.where())));
    stream.read(bytes.data() + npy_prefix_size, bytes.size() - npy_prefix_size);
    return parse_npy_header(bytes, stream.where());
}

// The header of a member whose data are just as long as it says.
NpyHeader read_sized_header(MemberStream & stream) {
    const NpyHeader header = read_header(stream);
    const uint64_t  size   = header.n_elements() * header.item_size;
    if (size != stream.left()) {
        fail(stream.where(), ": the array needs ", size, " bytes, the member has ", stream.left());
    }
    return header;
}

// Reads n elements of type From and hands them over in pieces: take(elements, n).
template <typename From, typename Take> void read_elements(MemberStream & stream, uint64_t n, const Take & take) {
    std::vector<From> chunk(static_cast<size_t>(std::min<uint64_t>(n, chunk_size / sizeof(From))));
    while (n > 0) {
        const auto count = static_cast<size_t>(std::min<uint64_t>(n, chunk.size()));
        stream.read(chunk.data(), count * sizeof(From));
        take(chunk.data(), count);
        n -= count;
    }
}

template <typename From, typename To> void read_as(MemberStream & stream, uint64_t n, std::vector<To> & out) {
    out.reserve(static_cast<size_t>(n));
    read_elements<From>(stream, n, [&](const From * from, size_t count) {
        std::transform(from, from + count, std::back_inserter(out), [](From value) { return static_cast<To>(value); });
    });
}

void read_halves(MemberStream & stream, uint64_t n, std::vector<float> & out) {
    out.resize(static_cast<size_t>(n));
    float * to = out.data();
    read_elements<ggml_fp16_t>(stream, n, [&](const ggml_fp16_t * from, size_t count) {
        ggml_fp16_to_fp32_row(from, to, static_cast<int64_t>(count));
        to += count;
    });
}

} // namespace

NpzReader NpzReader::open(const std::string & path) {
    NpzReader reader(MappedFile::open(path));
    reader.members_ = read_zip_directory(reader.file_);
    for (size_t i = 0; i < reader.members_.size(); i++) {
        reader.index_.emplace(reader.members_[i].name, i);
    }
    return reader;
}

const NpzMember * NpzReader::find(const std::string & name) const {
    auto it = index_.find(name);
    if (it == index_.end()) {
        it = index_.find(name + ".npy");
    }
    return it == index_.end() ? nullptr : &members_[it->second];
}

const NpzMember & NpzReader::get(const std::string & name) const {
    const NpzMember * member = find(name);
    if (member == nullptr) {
        fail(printable(path()), ": none of its ", members_.size(), " members is called ", in_quotes(name));
    }
    return *member;
}

NpyHeader NpzReader::header(const NpzMember & member) const {
    MemberStream stream(file_, member);
    return read_sized_header(stream);
}

std::vector<float> NpzReader::read_floats(const NpzMember & member, NpyHeader & header, const Accept & accept) const {
    MemberStream stream(file_, member);
    header = read_sized_header(stream);
    if (accept) {
        accept(header);
    }
    const uint64_t     n = header.n_elements();
    std::vector<float> data;
    switch (header.type) {
        case NpyType::f2: read_halves(stream, n, data); break;
        case NpyType::f4: read_as<float>(stream, n, data); break;
        case NpyType::f8: read_as<double>(stream, n, data); break;
        case NpyType::i4: read_as<int32_t>(stream, n, data); break;
        case NpyType::i8: read_as<int64_t>(stream, n, data); break;
        case NpyType::text: fail(stream.where(), ": the array holds text, expected numbers");
    }
    return data;
}

std::vector<int64_t> NpzReader::read_ints(const NpzMember & member, NpyHeader & header, const Accept & accept) const {
    MemberStream stream(file_, member);
    header = read_sized_header(stream);
    if (accept) {
        accept(header);
    }
    const uint64_t       n = header.n_elements();
    std::vector<int64_t> data;
    if (header.type == NpyType::i4) {
        read_as<int32_t>(stream, n, data);
    } else if (header.type == NpyType::i8) {
        read_as<int64_t>(stream, n, data);
    } else {
        fail(stream.where(), ": array of ", npy_type_name(header.type), ", expected int32 or int64");
    }
    return data;
}

std::string NpzReader::read_text(const NpzMember & member) const {
    MemberStream stream(file_, member);
    if (stream.left() > text_max) {
        fail(stream.where(), ": ", stream.left(), " bytes of text, expected at most ", text_max);
    }
    const std::string extension = ".npy";
    const bool        is_array  = member.name.size() > extension.size() &&
                          member.name.compare(member.name.size() - extension.size(), extension.size(), extension) == 0;
    if (is_array && read_sized_header(stream).type != NpyType::text) {
        fail(stream.where(), ": the member is an array of numbers, expected text");
    }
    std::string text(static_cast<size_t>(stream.left()), '\0');
    if (!text.empty()) {
        stream.read(text.data(), text.size());
    }
    return text;
}

} // namespace buoy
