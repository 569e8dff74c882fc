// Random damage to small archives, stored and deflated: opening and reading everything works or throws an Error.

#include "io/npz-reader.h"
#include "io/npz-writer.h"

#include "buoy/error.h"
#include "support/fuzz.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <array>
#include <zlib.h>

using namespace buoy;
using namespace buoy::test;

namespace {

std::string deflated(const std::string & data) {
    z_stream stream = {};
    REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    std::string in = data;
    std::string out(deflateBound(&stream, in.size()), '\0');
    stream.next_in   = reinterpret_cast<Bytef *>(in.data());
    stream.avail_in  = static_cast<uInt>(in.size());
    stream.next_out  = reinterpret_cast<Bytef *>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
}

std::string archive(bool packed) {
    const std::string path = temp_dir() + "/seed.npz";
    std::string       floats(40, '\x11');
    std::string       array = npy_header(NpyType::f4, {2, 5}) + floats;
    std::string       ints  = npy_header(NpyType::i4, {3}) + std::string(12, '\x02');
    PendingFile       file(path, false);
    NpzWriter         npz(file);
    npz.add("meta.json", "{}");
    npz.add("a/b.npy", packed ? deflated(array) : array);
    npz.add("c.npy", ints);
    npz.finish();
    file.commit();
    std::string bytes = read_file(path);
    if (packed) { // the writer only stores: mark the member as deflated and give its size and checksum
        for (const char * signature : {"PK\x03\x04", "PK\x01\x02"}) {
            const bool   central = signature[2] == 1;
            const size_t name    = central ? bytes.rfind("a/b.npy") : bytes.find("a/b.npy");
            const size_t at      = name - (central ? 46 : 30) + (central ? 2 : 0);
            bytes.replace(at + 8, 2, le(uint16_t{8}));
            bytes.replace(at + 14, 4, le(crc32_of(array.data(), array.size())));
            bytes.replace(at + 22, 4, le(static_cast<uint32_t>(array.size())));
        }
    }
    return bytes;
}

uint64_t edge_number(Random & random) {
    static constexpr std::array<uint64_t, 12> edges{
        0, 1, 8, 255, 65535, 0x7fffffff, 0x80000000, 0xffffffff, 1ull << 40, 1ull << 62, 1ull << 63, ~0ull};
    return edges[below(random, edges.size())] + below(random, 5) - 2;
}

void mutate(std::string & bytes, Random & random) {
    if (bytes.empty()) {
        return;
    }
    const size_t at   = below(random, bytes.size());
    const size_t size = std::min<size_t>(bytes.size() - at, 1 + below(random, 16));
    switch (below(random, 8)) {
        case 0: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(random, 8))); break;
        case 1: bytes[at] = static_cast<char>(random()); break;
        case 2:
            bytes.replace(at, std::min<size_t>(2, bytes.size() - at), le(static_cast<uint16_t>(edge_number(random))));
            break;
        case 3:
            bytes.replace(at, std::min<size_t>(4, bytes.size() - at), le(static_cast<uint32_t>(edge_number(random))));
            break;
        case 4: bytes.resize(at); break;
        case 5: bytes.erase(at, size); break;
        case 6: bytes.insert(below(random, bytes.size()), bytes.substr(at, size)); break;
        default: bytes.replace(below(random, bytes.size()), size, bytes.substr(at, size)); break;
    }
}

template <typename Ask> bool answered(const Ask & ask) {
    try {
        ask();
        return true;
    } catch (const Error & error) {
        const std::string message = error.what();
        REQUIRE_FALSE(message.empty());
        REQUIRE(message.find('\n') == std::string::npos);
        return false;
    }
}

bool read_everything(const std::string & path) {
    const NpzReader reader = NpzReader::open(path);
    bool            sound  = true;
    for (const NpzMember & member : reader.members()) {
        NpyHeader header;
        REQUIRE(member.end <= reader.size());
        size_t     n      = 0;
        const bool floats = answered([&] { n = reader.read_floats(member, header).size(); });
        REQUIRE((!floats || n == header.n_elements()));
        const bool ints = answered([&] { n = reader.read_ints(member, header).size(); });
        REQUIRE((!ints || n == header.n_elements()));
        REQUIRE((floats || !ints));
        sound = (answered([&] { reader.read_text(member); }) || floats) && sound;
    }
    return sound;
}

} // namespace

TEST_CASE("npz fuzz: damaged archives give an Error or sound arrays") {
    const std::array<std::string, 2> seeds{archive(false), archive(true)};
    const uint64_t                   count   = setting("BUOY_FUZZ_COUNT", 20000);
    const uint64_t                   seed    = setting("BUOY_FUZZ_SEED", 1);
    const std::string                dir     = temp_dir();
    uint64_t                         n_open  = 0;
    uint64_t                         n_sound = 0;
    for (const std::string & bytes : seeds) { // undamaged ones are read whole
        REQUIRE(read_everything(write_file(dir, "fuzz.npz", bytes)));
    }
    for (uint64_t i = 0; i < count; ++i) {
        CAPTURE(seed);
        CAPTURE(i);
        Random      random(seed << 32 | i); // a failing case runs alone by its number
        std::string bytes = seeds[i % seeds.size()];
        for (uint64_t n = 1 + below(random, 3); n > 0; --n) {
            mutate(bytes, random);
        }
        const std::string path = write_file(dir, "fuzz.npz", bytes);
        n_open += answered([&] { n_sound += read_everything(path); });
    }
    MESSAGE(count, " archives, ", n_open, " opened, ", n_sound, " of them wholly sound");
    CHECK(n_open > count / 100);
    CHECK(n_open < count);
}
