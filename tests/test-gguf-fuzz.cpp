// Random damage to small correct files: opening and asking for everything either works or throws an Error.
// The seed is fixed, so a failure repeats; BUOY_FUZZ_COUNT and BUOY_FUZZ_SEED search further.

#include "io/gguf-file.h"

#include "buoy/error.h"
#include "support/fuzz.h"
#include "support/gguf-bytes.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <array>

#include <sys/resource.h>

using namespace buoy;
using namespace buoy::test;

namespace {

// Numbers near the limits that a parser may get wrong.
uint64_t edge_number(Random & random) {
    static constexpr std::array<uint64_t, 14> edges{
        0, 1, 2, 8, 32, 255, 65535, 0x7fffffff, 0x80000000, 0xffffffff, 1ull << 40, 1ull << 62, 1ull << 63, ~0ull};
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
        case 2: { // a 32-bit field
            const std::string number = le(static_cast<uint32_t>(edge_number(random)));
            bytes.replace(at, std::min<size_t>(4, bytes.size() - at), number);
            break;
        }
        case 3: { // a 64-bit field
            const std::string number = le(edge_number(random));
            bytes.replace(at, std::min<size_t>(8, bytes.size() - at), number);
            break;
        }
        case 4: bytes.resize(at); break;
        case 5: bytes.erase(at, size); break;
        case 6: bytes.insert(below(random, bytes.size()), bytes.substr(at, size)); break;
        default: bytes.replace(below(random, bytes.size()), size, bytes.substr(at, size)); break;
    }
}

// Runs one question, which may throw an Error and nothing else; true if it was answered.
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

// Every value and every tensor byte of a file that was accepted must be there.
void ask_everything(const GgufFile & file) {
    for (const std::string & key : file.keys()) {
        int n_answered = 0;
        n_answered += answered([&] { file.get_int(key); });
        n_answered += answered([&] { file.get_float(key); });
        n_answered += answered([&] { file.get_bool(key); });
        n_answered += answered([&] { file.get_string(key); });
        n_answered += answered([&] { file.get_int_array(key); });
        n_answered += answered([&] { file.get_float_array(key); });
        n_answered += answered([&] { file.get_string_array(key); });
        REQUIRE(n_answered <= 1); // a value has one type
        REQUIRE(answered([&] { file.array_size(key); }) == file.is_array(key));
    }
    std::string data;
    for (const GgufTensor & tensor : file.tensors()) {
        REQUIRE(tensor.size <= file.size());
        data.resize(tensor.size);
        REQUIRE(answered([&] { file.file(tensor.file).read(tensor.offset, data.data(), data.size()); }));
        REQUIRE(file.find_tensor(tensor.name) == &tensor);
    }
}

long peak_memory() {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
#ifdef __APPLE__
    return usage.ru_maxrss >> 20;
#else
    return usage.ru_maxrss >> 10;
#endif
}

} // namespace

TEST_CASE("gguf fuzz: damaged files give an Error or a sound model") {
    GgufBytes tiny;
    tiny.u32("general.alignment", 8);
    tiny.alignment = 8;
    tiny.texts("t", {"a", "bc"});
    tiny.tensor("w", GGML_TYPE_F16, {4, 2});
    const std::array<std::string, 2> seeds{gguf_sample().build(), tiny.build()};

    const uint64_t    count  = setting("BUOY_FUZZ_COUNT", 20000);
    const uint64_t    seed   = setting("BUOY_FUZZ_SEED", 1);
    const std::string dir    = temp_dir();
    const long        before = peak_memory();
    uint64_t          n_open = 0;
    for (uint64_t i = 0; i < count; ++i) {
        CAPTURE(seed);
        CAPTURE(i);
        Random      random(seed << 32 | i); // a failing case runs alone by its number
        std::string bytes = seeds[i % seeds.size()];
        for (uint64_t n = 1 + below(random, 4); n > 0; --n) {
            mutate(bytes, random);
        }
        const std::string path = write_file(dir, "fuzz.gguf", bytes);
        n_open += answered([&] { ask_everything(GgufFile::open(path)); });
    }
    MESSAGE(count, " files, ", n_open, " of them still sound, peak memory grew by ", peak_memory() - before, " MiB");
    CHECK(n_open > count / 100); // damage that always hits the preamble would test nothing
    CHECK(n_open < count);
    CHECK(peak_memory() - before < 1024); // sanitizers keep freed memory for a while, a lying length would ask for more
}
