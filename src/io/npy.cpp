#include "io/npy.h"

#include "base/checked.h"
#include "buoy/files.h"
#include "buoy/message.h"
#include "buoy/parse.h"
#include "io/mapped-file.h"
#include "io/pending-file.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace buoy {

namespace {

struct TypeEntry {
    NpyType      type;
    const char * descr;
    const char * name;
    size_t       size;
};

constexpr std::array<TypeEntry, 5> types = {{
    {NpyType::f2, "<f2", "float16", 2},
    {NpyType::f4, "<f4", "float32", 4},
    {NpyType::f8, "<f8", "float64", 8},
    {NpyType::i4, "<i4", "int32", 4},
    {NpyType::i8, "<i8", "int64", 8},
}};

const TypeEntry * find_type(NpyType type) {
    for (const TypeEntry & entry : types) {
        if (entry.type == type) {
            return &entry;
        }
    }
    return nullptr;
}

constexpr std::string_view magic = "\x93NUMPY";

// The description is a Python dictionary of three known keys; this reads no more Python than that.
class DictReader {
public:
    DictReader(std::string_view text, const std::string & where) : text_(text), where_(where) {}

    void read(NpyHeader & header) {
        expect('{');
        while (!accept('}')) {
            const std::string_view key = quoted();
            expect(':');
            if (key == "descr" && !has_descr_) {
                has_descr_ = true;
                read_type(quoted(), header);
            } else if (key == "fortran_order" && !has_order_) {
                has_order_ = true;
                fortran_   = boolean();
            } else if (key == "shape" && !has_shape_) {
                has_shape_ = true;
                read_shape(header.shape);
            } else {
                broken();
            }
            if (!accept(',')) {
                expect('}');
                break;
            }
        }
        skip_space();
        if (!text_.empty() || !has_descr_ || !has_order_ || !has_shape_) {
            broken();
        }
        if (fortran_ && header.shape.size() > 1) {
            fail(where_, ": the array is in Fortran order, expected C order");
        }
    }

private:
    [[noreturn]] void broken() const { fail(where_, ": the .npy header is not one that numpy writes"); }

    void skip_space() {
        while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) {
            text_.remove_prefix(1);
        }
    }

    bool accept(char c) {
        skip_space();
        if (text_.empty() || text_[0] != c) {
            return false;
        }
        text_.remove_prefix(1);
        return true;
    }

    void expect(char c) {
        if (!accept(c)) {
            broken();
        }
    }

    std::string_view quoted() {
        expect('\'');
        const size_t end = text_.find('\'');
        if (end == std::string_view::npos) {
            broken();
        }
        const std::string_view out = text_.substr(0, end);
        text_.remove_prefix(end + 1);
        return out;
    }

    bool boolean() {
        skip_space();
        for (const auto & [word, value] : {std::pair<std::string_view, bool>{"False", false}, {"True", true}}) {
            if (text_.substr(0, word.size()) == word) {
                text_.remove_prefix(word.size());
                return value;
            }
        }
        broken();
    }

    void read_type(std::string_view descr, NpyHeader & header) const {
        for (const TypeEntry & entry : types) {
            if (descr == entry.descr) {
                header.type      = entry.type;
                header.item_size = entry.size;
                return;
            }
        }
        const auto length = descr.substr(0, 2) == "|S" ? parse_number<uint32_t>(descr.substr(2)) : std::nullopt;
        if (!length) {
            fail(where_, ": array of type ", in_quotes(descr), ", expected <f2, <f4, <f8, <i4 or <i8");
        }
        header.type      = NpyType::text;
        header.item_size = *length;
    }

    void read_shape(std::vector<int64_t> & shape) {
        expect('(');
        while (!accept(')')) {
            skip_space();
            const size_t n      = std::min(text_.find_first_not_of("0123456789"), text_.size());
            const auto   number = parse_number<int64_t>(text_.substr(0, n));
            if (!number || shape.size() == 8) {
                broken();
            }
            shape.push_back(*number);
            text_.remove_prefix(n);
            if (!accept(',')) {
                expect(')');
                break;
            }
        }
    }

    std::string_view    text_;
    const std::string & where_;
    bool                has_descr_ = false;
    bool                has_order_ = false;
    bool                has_shape_ = false;
    bool                fortran_   = false;
};

} // namespace

uint64_t NpyHeader::n_elements() const {
    uint64_t n = 1;
    for (int64_t extent : shape) {
        n *= static_cast<uint64_t>(extent);
    }
    return n;
}

const char * npy_type_name(NpyType type) {
    const TypeEntry * entry = find_type(type);
    return entry != nullptr ? entry->name : "bytes";
}

size_t npy_item_size(NpyType type) { return find_type(type)->size; }

std::string npy_header_of(const std::string & descr, const std::vector<int64_t> & shape) {
    std::string dims;
    for (int64_t n : shape) {
        dims += std::to_string(n) + ", ";
    }
    std::string dict = concat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (", dims, "), }");
    // magic, version and length are 10 bytes; the whole header ends with a newline at a multiple of 64
    while ((dict.size() + 11) % 64 != 0) {
        dict += ' ';
    }
    dict += '\n';
    std::string header(magic);
    header += '\x01';
    header += '\x00';
    header += static_cast<char>(dict.size() & 0xff);
    header += static_cast<char>(dict.size() >> 8);
    return header + dict;
}

std::string npy_header(NpyType type, const std::vector<int64_t> & shape) {
    return npy_header_of(find_type(type)->descr, shape);
}

uint64_t npy_header_size(const std::string & prefix, const std::string & where) {
    if (prefix.size() < npy_prefix_size || prefix.compare(0, magic.size(), magic) != 0) {
        fail(where, ": not a .npy array");
    }
    const auto byte    = [&](size_t i) { return static_cast<uint64_t>(static_cast<uint8_t>(prefix[i])); };
    const auto version = byte(6);
    if (version < 1 || version > 3) {
        fail(where, ": .npy version ", version, ", expected 1 to 3");
    }
    const uint64_t size =
        version == 1 ? 10 + (byte(8) | byte(9) << 8) : 12 + (byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24);
    if (size < npy_prefix_size || size > npy_header_max) {
        fail(where, ": .npy header of ", size, " bytes, expected ", npy_prefix_size, " to ", npy_header_max);
    }
    return size;
}

NpyHeader parse_npy_header(const std::string & bytes, const std::string & where) {
    const size_t start = bytes[6] == 1 ? 10 : 12;
    NpyHeader    header;
    DictReader(std::string_view(bytes).substr(start), where).read(header);
    std::optional<uint64_t> size = header.item_size;
    for (int64_t extent : header.shape) {
        size = size ? checked_mul(*size, static_cast<uint64_t>(extent)) : size;
    }
    // an extent of 0 hides the others' product, so they are looked at alone
    std::optional<uint64_t> n = 1;
    for (int64_t extent : header.shape) {
        n = n ? checked_mul(*n, static_cast<uint64_t>(std::max<int64_t>(extent, 1))) : n;
    }
    if (!size || !n) {
        fail(where, ": the array's shape overflows");
    }
    return header;
}

void write_npy(const std::string & path, const std::vector<int64_t> & shape, const std::vector<float> & data) {
    PendingFile       file(path, true);
    const std::string header = npy_header(NpyType::f4, shape);
    file.write(header.data(), header.size());
    file.write(data.data(), data.size() * sizeof(float));
    file.commit();
}

std::vector<float> read_npy(const std::string & path, const std::vector<int64_t> & shape) {
    const MappedFile  file  = MappedFile::open(path);
    const std::string where = printable(path);
    const auto        begin = [&](uint64_t n) {
        std::string bytes(static_cast<size_t>(std::min(n, file.size())), '\0');
        file.read(0, bytes.data(), bytes.size());
        return bytes;
    };
    const uint64_t  n_header = npy_header_size(begin(npy_prefix_size), where);
    const NpyHeader header   = parse_npy_header(begin(n_header), where);
    const auto      text     = [](const std::vector<int64_t> & extents) {
        std::string out;
        for (const int64_t extent : extents) {
            out += (out.empty() ? "[" : ",") + std::to_string(extent);
        }
        return out + "]";
    };
    if (header.type != NpyType::f4 || header.shape != shape) {
        fail(where, ": expected float32 ", text(shape), ", found ", npy_type_name(header.type), " ",
             text(header.shape));
    }
    const uint64_t n_bytes = header.n_elements() * sizeof(float);
    if (file.size() < n_header || file.size() - n_header != n_bytes) {
        fail(where, ": expected a file of ", n_header + n_bytes, " bytes, found ", file.size());
    }
    std::vector<float> data(static_cast<size_t>(header.n_elements()));
    file.read(n_header, data.data(), static_cast<size_t>(n_bytes));
    return data;
}

} // namespace buoy
