#include "support/figure-files.h"

#include "buoy/utf8.h"

#include <zlib.h>

#include <cctype>
#include <cstdint>
#include <stdexcept>

namespace buoy::test {

namespace {

void require(bool condition, const char * what) {
    if (!condition) {
        throw std::runtime_error(std::string("PNG: ") + what);
    }
}

uint32_t read_u32(const std::string & data, size_t at) {
    require(at + 4 <= data.size(), "cut");
    uint32_t value = 0;
    for (size_t i = 0; i < 4; i++) {
        value = value << 8 | static_cast<uint8_t>(data[at + i]);
    }
    return value;
}

// Where the quoted value that begins at `at` ends, one past its quote; npos if it is not well-formed.
size_t end_of_value(const std::string & xml, size_t at) {
    const size_t end = xml.find('"', at + 1);
    return xml[at] == '"' && end != std::string::npos && xml.find('<', at) > end ? end + 1 : std::string::npos;
}

std::string fault_in_characters(const std::string & xml) {
    if (utf8_repair(xml) != xml) {
        return "not UTF-8";
    }
    for (size_t i = 0; i < xml.size(); i++) {
        const auto c = static_cast<uint8_t>(xml[i]);
        if ((c < 0x20 && c != '\n' && c != '\t' && c != '\r') || xml.compare(i, 3, "\xEF\xBF\xBE") == 0 ||
            xml.compare(i, 3, "\xEF\xBF\xBF") == 0) {
            return "a forbidden character";
        }
        bool is_entity = false;
        for (const char * entity : {"&lt;", "&gt;", "&amp;", "&quot;"}) {
            is_entity |= xml.compare(i, std::string(entity).size(), entity) == 0;
        }
        if (c == '&' && !is_entity) {
            return "an & that begins no entity";
        }
    }
    return "";
}

} // namespace

Pixels decode_png(const std::string & file) {
    require(file.compare(0, 8, "\x89PNG\r\n\x1a\n") == 0, "signature");
    std::string header, packed;
    bool        ended = false;
    for (size_t at = 8; at < file.size();) {
        const size_t      length = read_u32(file, at);
        const std::string body   = file.substr(at + 4, length + 4);
        require(body.size() == length + 4, "cut");
        const auto crc = crc32(0, reinterpret_cast<const Bytef *>(body.data()), static_cast<uInt>(body.size()));
        require(crc == read_u32(file, at + 8 + length), "checksum");
        const std::string type = body.substr(0, 4);
        header                 = type == "IHDR" ? body.substr(4) : header;
        packed += type == "IDAT" ? body.substr(4) : "";
        ended = type == "IEND";
        at += length + 12;
    }
    require(ended && header.size() == 13 && header[8] == 8 && (header[9] == 2 || header[9] == 6), "header");
    Pixels       out;
    const size_t n_channels       = header[9] == 2 ? 3 : 4;
    out.width                     = read_u32(header, 0);
    out.height                    = read_u32(header, 4);
    const size_t         row_size = out.width * n_channels;
    std::vector<uint8_t> raw((row_size + 1) * out.height);
    uLongf               size = static_cast<uLongf>(raw.size());
    require(uncompress(raw.data(), &size, reinterpret_cast<const Bytef *>(packed.data()),
                       static_cast<uLong>(packed.size())) == Z_OK &&
                size == raw.size(),
            "data");
    std::vector<uint8_t> above(row_size, 0), row(row_size);
    for (size_t y = 0; y < out.height; y++) {
        const uint8_t * source = raw.data() + y * (row_size + 1);
        require(source[0] <= 2, "filter");
        for (size_t i = 0; i < row_size; i++) {
            const uint8_t before = source[0] == 1 && i >= n_channels ? row[i - n_channels]
                                   : source[0] == 2                  ? above[i]
                                                                     : uint8_t(0);
            row[i]               = static_cast<uint8_t>(source[1 + i] + before);
        }
        for (size_t x = 0; x < out.width; x++) {
            const uint8_t * p = row.data() + x * n_channels;
            out.colors.push_back({p[0], p[1], p[2], n_channels == 4 ? p[3] : uint8_t(255)});
        }
        above = row;
    }
    return out;
}

std::string xml_fault(const std::string & xml) {
    const std::string fault = fault_in_characters(xml);
    if (!fault.empty()) {
        return fault;
    }
    std::vector<std::string> open;
    size_t                   n_roots = 0;
    for (size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at)) {
        const bool closing = xml[at + 1] == '/';
        size_t     p       = at + (closing ? 2 : 1);
        const auto name    = [&] {
            const size_t begin = p;
            while (p < xml.size() && (std::isalnum(static_cast<uint8_t>(xml[p])) || xml[p] == '-' || xml[p] == ':')) {
                p++;
            }
            return xml.substr(begin, p - begin);
        };
        const std::string        element = name();
        std::vector<std::string> attributes;
        while (p < xml.size() && xml[p] == ' ') {
            p++;
            attributes.push_back(name());
            for (size_t i = 0; i + 1 < attributes.size(); i++) {
                if (attributes[i] == attributes.back()) {
                    return "attribute " + attributes[i] + " twice in " + element;
                }
            }
            if (xml[p] != '=' || (p = end_of_value(xml, p + 1)) == std::string::npos) {
                return "a bad attribute in " + element;
            }
        }
        const bool empty = xml.compare(p, 2, "/>") == 0;
        if (element.empty() || (!empty && xml[p] != '>')) {
            return "a bad tag at " + std::to_string(at);
        }
        if (closing) {
            if (open.empty() || open.back() != element) {
                return "an unexpected end of " + element;
            }
            open.pop_back();
        } else {
            n_roots += open.empty();
            if (!empty) {
                open.push_back(element);
            }
        }
        at = p;
    }
    return !open.empty() ? open.back() + " without an end" : n_roots != 1 ? "not one root" : "";
}

} // namespace buoy::test
