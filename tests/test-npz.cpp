#include "io/npz-reader.h"
#include "io/npz-writer.h"

#include "buoy/error.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/python.h"

#include <doctest/doctest.h>

#include <filesystem>

using namespace buoy;
using namespace buoy::test;

namespace {

template <typename T> std::string array_bytes(NpyType type, const std::vector<int64_t> & shape, std::vector<T> data) {
    return npy_header(type, shape) + std::string(reinterpret_cast<const char *>(data.data()), data.size() * sizeof(T));
}

std::string write_archive(const std::vector<std::pair<std::string, std::string>> & members) {
    const std::string path = temp_dir() + "/x.npz";
    PendingFile       file(path, false, 0600);
    NpzWriter         npz(file);
    NpzSize           size;
    for (const auto & [name, data] : members) {
        npz.add(name, data);
        size.add(name.size(), data.size());
    }
    npz.finish();
    CHECK(npz.size() == size.total());
    file.commit();
    CHECK(std::filesystem::file_size(path) == size.total());
    return path;
}

std::vector<std::pair<std::string, std::string>> sample() {
    return {
        {"meta.json", "{\"format\": 1}"},
        {"zero.npy", array_bytes<int32_t>(NpyType::i4, {}, {-7})},
        {"empty.npy", array_bytes<float>(NpyType::f4, {3, 0, 2}, {})},
        {"a/halves.npy", array_bytes<uint16_t>(NpyType::f2, {2, 3}, {0x3c00, 0xc000, 0x3555, 0x7c00, 0xfc00, 0x0001})},
        {"a/floats.npy", array_bytes<float>(NpyType::f4, {2, 1, 2}, {1.5f, -2.25f, 1e30f, 3.0f})},
        {"four.npy", array_bytes<int32_t>(NpyType::i4, {1, 2, 1, 2}, {1, 2, 3, 4})},
    };
}

// Opening or reading everything fails with one line that has the words in it.
void check_broken(const std::string & bytes, const std::string & words) {
    const std::string path = write_file(temp_dir(), "broken.npz", bytes);
    CAPTURE(words);
    try {
        const NpzReader reader = NpzReader::open(path);
        for (const NpzMember & member : reader.members()) {
            reader.read_text(member);
        }
        FAIL("accepted");
    } catch (const Error & error) {
        const std::string message = error.what();
        CAPTURE(message);
        CHECK(message.find(path) == 0);
        CHECK(message.find(words) != std::string::npos);
        CHECK(message.find('\n') == std::string::npos);
    }
}

std::string one_member() { return read_file(write_archive({{"ab", "0123456789"}})); }

} // namespace

TEST_CASE("npz: what the writer writes, the reader reads") {
    const NpzReader reader = NpzReader::open(write_archive(sample()));
    NpyHeader       header;
    REQUIRE(reader.members().size() == 6);
    CHECK(reader.read_text(reader.get("meta.json")) == "{\"format\": 1}");
    CHECK(reader.read_ints(reader.get("zero"), header) == std::vector<int64_t>{-7});
    CHECK(header.shape.empty());
    CHECK(reader.read_floats(reader.get("empty"), header).empty());
    CHECK(header.shape == std::vector<int64_t>{3, 0, 2});
    const std::vector<float> halves = reader.read_floats(reader.get("a/halves.npy"), header);
    CHECK(header.type == NpyType::f2);
    CHECK(halves[0] == 1.0f);
    CHECK(halves[1] == -2.0f);
    CHECK(halves[2] == doctest::Approx(1.0 / 3).epsilon(1e-3));
    CHECK(halves[3] == std::numeric_limits<float>::infinity());
    CHECK(reader.read_floats(reader.get("a/floats"), header) == std::vector<float>{1.5f, -2.25f, 1e30f, 3.0f});
    CHECK(reader.read_ints(reader.get("four"), header) == std::vector<int64_t>{1, 2, 3, 4});
    CHECK(reader.find("nothing") == nullptr);
    CHECK_THROWS_AS(reader.get("nothing"), Error);
    CHECK_THROWS_AS(reader.read_ints(reader.get("a/floats"), header), Error);
    CHECK_THROWS_AS(reader.read_text(reader.get("a/floats")), Error);
    CHECK_THROWS_AS(reader.header(reader.get("meta.json")), Error);
}

TEST_CASE("npz: numpy opens what we write, and we open what numpy writes") {
    if (numpy_python().empty()) {
        MESSAGE("no python3 with numpy, skipped");
        return;
    }
    const std::string path   = write_archive(sample());
    const std::string saved  = temp_dir() + "/saved.npz";
    const std::string out    = run_python(R"(
import sys, zipfile, numpy as np
f = np.load(sys.argv[1])
assert zipfile.ZipFile(sys.argv[1]).testzip() is None
assert f['meta.json'] == b'{"format": 1}'
assert f['zero'].shape == () and f['zero'] == -7 and f['zero'].dtype == np.int32
assert f['empty'].shape == (3, 0, 2) and f['empty'].dtype == np.float32
assert f['a/halves'].dtype == np.float16 and f['a/halves'].shape == (2, 3) and f['a/halves'][0, 1] == -2
assert f['a/floats'].tolist() == [[[1.5, -2.25]], [[np.float32(1e30), 3.0]]]
assert f['four'].shape == (1, 2, 1, 2) and f['four'].ravel().tolist() == [1, 2, 3, 4]
more = dict(f)
rng = np.random.default_rng(1)
more['doubles'] = np.arange(6.0).reshape(2, 3)
more['long'] = np.arange(300000, dtype=np.int64) % 5 - 2
more['noise'] = rng.standard_normal((64, 70)).astype(np.float32)
more['fortran'] = np.asfortranarray(more['doubles'])
more['big'] = more['doubles'].astype('>f4')
np.savez_compressed(sys.argv[2], **more)
print(float(more['noise'].sum(dtype=np.float64)))
)",
                                          {path, saved});
    const NpzReader   reader = NpzReader::open(saved);
    NpyHeader         header;
    CHECK(reader.get("long").deflated);
    CHECK(reader.read_text(reader.get("meta.json")) == "{\"format\": 1}");
    CHECK(reader.read_floats(reader.get("doubles"), header) == std::vector<float>{0, 1, 2, 3, 4, 5});
    const std::vector<int64_t> numbers = reader.read_ints(reader.get("long"), header);
    REQUIRE(numbers.size() == 300000);
    for (size_t i = 0; i < numbers.size(); i++) {
        REQUIRE(numbers[i] == static_cast<int64_t>(i % 5) - 2);
    }
    double sum = 0.0;
    for (float value : reader.read_floats(reader.get("noise"), header)) {
        sum += static_cast<double>(value);
    }
    CHECK(sum == doctest::Approx(std::stod(out)).epsilon(1e-9));
    CHECK_THROWS_WITH(reader.header(reader.get("fortran")), doctest::Contains("Fortran order"));
    CHECK_THROWS_WITH(reader.header(reader.get("big")), doctest::Contains("'>f4'"));
}

TEST_CASE("npz: truncate_to takes the last members back") {
    const std::string path = temp_dir() + "/x.npz";
    PendingFile       file(path, false);
    NpzWriter         npz(file);
    npz.add("a", "first");
    const uint64_t end = npz.size();
    npz.add("b", std::string(10000, 'b'));
    npz.begin("c", 100, 0);
    npz.write("half", 4);
    npz.truncate_to(end);
    npz.add("d", "last");
    npz.finish();
    file.commit();
    const NpzReader reader = NpzReader::open(path);
    REQUIRE(reader.members().size() == 2);
    CHECK(reader.read_text(reader.get("a")) == "first");
    CHECK(reader.read_text(reader.get("d")) == "last");
}

TEST_CASE("npz: damage is named in one line") {
    const std::string good = one_member(); // local header 30 + 2, data 10, central 46 + 2, end 22
    REQUIRE(good.size() == 112);
    const auto with = [&](size_t at, const std::string & bytes) {
        std::string damaged = good;
        damaged.replace(at, bytes.size(), bytes);
        return damaged;
    };
    for (size_t n = 1; n < good.size(); n++) {
        check_broken(good.substr(0, n), "");
    }
    check_broken(with(35, "x"), "checksum");
    check_broken(with(0, "x"), "the member has no header");
    check_broken(with(28, le(uint16_t{11})), "overlaps");
    check_broken(with(42, "x"), "the directory lists a member that is not there");
    check_broken(with(42 + 8, le(uint16_t{1})), "encrypted");
    check_broken(with(42 + 10, le(uint16_t{12})), "neither stored nor deflated");
    check_broken(with(42 + 10, le(uint16_t{8})), "damaged");
    check_broken(with(42 + 20, le(uint32_t{11})), "two sizes");
    check_broken(with(42 + 20, le(uint32_t{11}) + le(uint32_t{11})), "overlaps");
    check_broken(with(42 + 20, le(~0u) + le(~0u)), "overlaps");
    check_broken(with(42 + 28, le(uint16_t{60000})), "ends inside a member");
    check_broken(with(42 + 42, le(~0u)), "overlaps");
    check_broken(with(90 + 10, le(uint16_t{2})), "does not fit");
    check_broken(with(90 + 10, le(uint16_t{0})), "the directory continues after its");
    check_broken(with(90 + 16, le(uint32_t{0x7fffffff})), "does not fit");
    check_broken(with(90 + 20, le(uint16_t{1})), "no zip directory");

    const std::string two = read_file(write_archive({{"ab", "0123456789"}, {"cd", "0123456789"}}));
    std::string       twice(two);
    twice.replace(84 + 48 + 46, 2, "ab"); // the second entry's name
    check_broken(twice, "appears twice");
    std::string same(two);
    same.replace(84 + 48 + 42, 4, le(uint32_t{0})); // the second entry's offset
    check_broken(same, "overlaps");
}

TEST_CASE("npz: zip64 sizes of 2^63 are refused") {
    // an entry whose sizes are in a zip64 record
    const std::string local   = one_member().substr(0, 42);
    std::string       central = one_member().substr(42, 48);
    central.replace(20, 8, le(~0u) + le(~0u));
    central.replace(30, 2, le(uint16_t{20}));
    central += le(uint16_t{1}) + le(uint16_t{16}) + le(uint64_t{1} << 63) + le(uint64_t{1} << 63);
    std::string end = one_member().substr(90);
    end.replace(12, 4, le(static_cast<uint32_t>(central.size())));
    check_broken(local + central + end, "overlaps");

    std::string short_record = central;
    short_record.replace(48 + 2, 2, le(uint16_t{8}));
    check_broken(local + short_record + end, "zip64");
}

TEST_CASE("npy: headers that lie") {
    const auto check = [&](const std::string & dict, const std::string & words, const std::string & data = "") {
        CAPTURE(dict);
        const std::string prefix = std::string("\x93NUMPY\x01", 7) + std::string(1, '\0');
        const std::string bytes  = prefix + le(static_cast<uint16_t>(dict.size())) + dict + data;
        const NpzReader   reader = NpzReader::open(write_archive({{"x.npy", bytes}}));
        CHECK_THROWS_WITH_AS(reader.header(reader.get("x")), doctest::Contains(words.c_str()), Error);
    };
    check("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", "needs 24 bytes, the member has 4", "1234");
    check("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", "Fortran");
    check("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }\n", "overflows");
    check("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4611686018427387904, 4), }\n", "overflows");
    check("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }\n",
          "not one that numpy writes");
    check("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }\n", "not one that numpy writes");
    check("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", "'|O'");
    check("{'descr': '<f4', 'shape': (1,), }\n", "not one that numpy writes");
    check("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n", "not one that numpy writes");
    check("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } __import__('os')\n", "not one that numpy writes");
    check("{", "not a .npy"); // shorter than any header
}
