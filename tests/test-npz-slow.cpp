// A member and an archive beyond 4 GiB: ours reads it, and so do zipfile and numpy.

#include "io/npz-reader.h"
#include "io/npz-writer.h"

#include "buoy/error.h"
#include "support/paths.h"
#include "support/python.h"

#include <doctest/doctest.h>

#include <filesystem>

using namespace buoy;
using namespace buoy::test;

TEST_CASE("npz slow: zip64") {
    const std::string dir = temp_dir();
    if (std::filesystem::space(dir).available < 6ull << 30) {
        MESSAGE("less than 6 GiB of disk, skipped");
        return;
    }
    const std::string path   = dir + "/big.npz";
    const int64_t     rows   = 42 * 1024; // of 100 KiB: 4.1 GiB
    const int64_t     width  = 100 * 1024;
    const std::string header = npy_header(NpyType::f4, {rows, width / 4});
    const std::string row(static_cast<size_t>(width), '\0');
    const std::string small = npy_header(NpyType::i4, {1}) + std::string("\x2a\0\0\0", 4);
    uint32_t          crc   = crc32_of(header.data(), header.size());
    for (int64_t i = 0; i < rows; i++) {
        crc = crc32_of(row.data(), row.size(), crc);
    }
    NpzSize size;
    {
        PendingFile    file(path, false, 0600);
        NpzWriter      npz(file);
        const uint64_t n = header.size() + static_cast<uint64_t>(rows * width);
        npz.add("before.npy", small);
        npz.begin("big.npy", n, crc);
        npz.write(header.data(), header.size());
        for (int64_t i = 0; i < rows; i++) {
            npz.write(row.data(), row.size());
        }
        npz.add("behind.npy", small);
        npz.finish();
        file.commit();
        size.add(10, small.size());
        size.add(7, n);
        size.add(10, small.size());
    }
    CHECK(size.total() == std::filesystem::file_size(path));
    CHECK(size.total() > 4ull << 30);

    const NpzReader reader = NpzReader::open(path);
    NpyHeader       found  = reader.header(reader.get("big"));
    CHECK(found.shape == std::vector<int64_t>{rows, width / 4});
    CHECK(reader.read_ints(reader.get("before"), found) == std::vector<int64_t>{42});
    CHECK(reader.read_ints(reader.get("behind"), found) == std::vector<int64_t>{42});

    if (numpy_python().empty()) {
        MESSAGE("no python3 with numpy, its half is skipped");
    } else {
        run_python(R"(
import sys, zipfile, numpy as np
z = zipfile.ZipFile(sys.argv[1])
assert z.testzip() is None
assert z.getinfo('big.npy').file_size > 4 << 30 and z.getinfo('behind.npy').header_offset > 4 << 30
f = np.load(sys.argv[1])
assert f['before'] == 42 and f['behind'] == 42
with z.open('big.npy') as m:
    assert np.lib.format.read_magic(m) == (1, 0)
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(m)
    assert shape == (43008, 25600) and not fortran and dtype == np.float32
)",
                   {path});
    }
    std::filesystem::remove(path);
}
