// Makes the oracles of what the repository has of them: buoy-oracles FROM TO. Every file is copied but packed checkpoints (*.drawn),
// which pack.py made. The arithmetic is that of pack.py, operation by operation, so that each machine gets the same bytes; compiled
// without contracted multiplications and additions.

#include <nlohmann/json.hpp>
#include <zlib.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

double log_of(double x) {
    int    e = 0;
    double m = std::frexp(x, &e);
    if (m < 0.7071067811865476) {
        m *= 2.0;
        e--;
    }
    const double s   = (m - 1.0) / (m + 1.0);
    double       sum = 0.0;
    for (int k = 17; k >= 0; k--) {
        sum = sum * (s * s) + 1.0 / (2.0 * k + 1.0);
    }
    return 2.0 * s * sum + e * 0.6931471805599453;
}

struct CosSin {
    double cos;
    double sin;
};

CosSin cos_sin(double x) { // 0 ≤ x < 2π
    const double quarter = std::floor(x * 0.6366197723675814 + 0.5);
    const double y       = (x - quarter * 1.5707963267948966) - quarter * 6.123233995736766e-17;
    double       cos     = 0.0;
    double       sin     = 0.0;
    for (int k = 9; k > 0; k--) {
        cos = (cos + 1.0) * -(y * y) / ((2.0 * k - 1.0) * (2.0 * k));
        sin = (sin + 1.0) * -(y * y) / ((2.0 * k) * (2.0 * k + 1.0));
    }
    cos += 1.0;
    sin = (sin + 1.0) * y;
    switch (static_cast<int>(quarter) % 4) {
        case 0: return {cos, sin};
        case 1: return {-sin, cos};
        case 2: return {-cos, -sin};
        default: return {sin, -cos};
    }
}

// Normal numbers as PyTorch draws them, from the given word of its generator on.
std::vector<float> drawn(uint32_t seed, uint64_t first, size_t count) {
    std::mt19937 words(seed);
    words.discard(first);
    std::vector<float> values(count);
    for (size_t at = 0; at < count; at += 16) {
        double uniform[16];
        for (double & u : uniform) {
            u = static_cast<double>(words() & 0xffffff) / 16777216.0;
        }
        for (size_t i = 0; i < 8; i++) {
            const float  radius = std::sqrt(-2.0f * static_cast<float>(log_of(1.0 - uniform[i])));
            const float  angle  = 6.2831853071795864f * static_cast<float>(uniform[i + 8]);
            const CosSin on     = cos_sin(angle);
            values[at + i]      = radius * static_cast<float>(on.cos);
            values[at + i + 8]  = radius * static_cast<float>(on.sin);
        }
    }
    return values;
}

// The float that is `difference` units in the last place further, as the bits of its type.
uint32_t moved(float value, bool is_bf16, int difference) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    if (is_bf16) {
        bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    }
    const uint32_t sign    = is_bf16 ? 0x8000 : 0x80000000;
    const int64_t  size    = bits & ~sign;
    const int64_t  ordered = ((bits & sign) != 0 ? -size : size) + difference;
    return ordered < 0 ? sign | static_cast<uint32_t>(-ordered) : static_cast<uint32_t>(ordered);
}

std::string read_gzip(const fs::path & path) {
    gzFile file = gzopen(path.c_str(), "rb");
    if (file == nullptr) {
        throw std::runtime_error("can't be opened");
    }
    std::string text;
    char        part[1 << 16];
    int         n = 0;
    while ((n = gzread(file, part, sizeof(part))) > 0) {
        text.append(part, static_cast<size_t>(n));
    }
    const bool whole = n == 0 && gzclose(file) == Z_OK;
    if (!whole) {
        throw std::runtime_error("is no whole gzip file");
    }
    return text;
}

std::string unpacked(const std::string & packed) {
    const size_t         text_end = packed.find('\n');
    const nlohmann::json plan     = nlohmann::json::parse(packed.substr(0, text_end));
    const std::string    header   = plan["header"];
    std::string          bytes(8, '\0');
    for (size_t i = 0; i < 8; i++) {
        bytes[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
    }
    bytes += header;
    size_t at = text_end + 1;
    for (const auto & tensor : plan["tensors"]) {
        if (tensor.contains("bytes")) {
            bytes.append(packed, at, tensor["bytes"].get<size_t>());
            at += tensor["bytes"].get<size_t>();
            continue;
        }
        const std::vector<float> normal  = drawn(tensor["seed"], tensor["draw"], tensor["count"]);
        const bool               is_bf16 = tensor["type"] == "BF16";
        const float              mean    = tensor["mean"];
        size_t                   i       = 0;
        for (const auto & scale : tensor["scales"]) {
            const float factor = scale[1];
            for (const size_t end = i + scale[0].get<size_t>(); i < end; i++) {
                const float    scaled = normal.at(i) * factor;
                const uint32_t bits =
                    moved(mean != 0.0f ? scaled + mean : scaled, is_bf16, static_cast<int8_t>(packed.at(at++)));
                for (int byte = 0; byte < (is_bf16 ? 2 : 4); byte++) {
                    bytes += static_cast<char>(bits >> (8 * byte) & 0xff);
                }
            }
        }
    }
    const auto sum = crc32(0, reinterpret_cast<const Bytef *>(bytes.data()), static_cast<uInt>(bytes.size()));
    if (sum != plan["crc32"].get<uLong>()) {
        throw std::runtime_error("gives other bytes than it was made of");
    }
    return bytes;
}

void unpack(const fs::path & from, const fs::path & to) {
    for (const auto & entry : fs::recursive_directory_iterator(from)) {
        const fs::path target = to / entry.path().lexically_relative(from);
        if (entry.is_directory()) {
            fs::create_directories(target);
        } else if (entry.path().extension() == ".drawn") {
            try {
                const std::string bytes = unpacked(read_gzip(entry.path()));
                std::ofstream     file(fs::path(target).replace_extension(), std::ios::binary);
                file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
                if (!file.flush()) {
                    throw std::runtime_error("can't be written to " + to.string());
                }
            } catch (const std::exception & error) {
                throw std::runtime_error(entry.path().string() + " " + error.what());
            }
        } else if (entry.path().parent_path() != from) {
            fs::copy_file(entry.path(), target, fs::copy_options::overwrite_existing);
        }
    }
}

} // namespace

int main(int argc, char ** argv) {
    if (argc != 3) {
        std::fputs("usage: buoy-oracles FROM TO\n", stderr);
        return 2;
    }
    try {
        fs::create_directories(argv[2]);
        unpack(argv[1], argv[2]);
    } catch (const std::exception & error) {
        std::fprintf(stderr, "buoy-oracles: %s\n", error.what());
        return 1;
    }
    return 0;
}
