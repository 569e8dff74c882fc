#include "io/mapped-file.h"

#include "buoy/error.h"
#include "support/gguf-bytes.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

using namespace buoy;
using namespace buoy::test;

namespace {

std::string open_error(const std::string & path) {
    try {
        MappedFile::open(path);
    } catch (const Error & error) {
        CHECK(error.kind() == ErrorKind::request);
        return error.what();
    }
    return "no error";
}

} // namespace

TEST_CASE("a file is read by position and mapped") {
    const std::string path = write_file(temp_dir(), "a.bin", "0123456789");
    MappedFile        file = MappedFile::open(path);
    CHECK(file.path() == path);
    CHECK(file.size() == 10);

    char part[4] = {};
    file.read(3, part, sizeof(part));
    CHECK(std::string(part, 4) == "3456");
    file.read(10, part, 0);
    CHECK_THROWS_WITH_AS(file.read(7, part, 4), doctest::Contains("expected 4 bytes at offset 7, the file has 10"),
                         Error);
    CHECK_THROWS_AS(file.read(~uint64_t{0}, part, 2), Error);

    FileMapping mapping = file.map();
    REQUIRE(mapping.size() == 10);
    CHECK(std::memcmp(mapping.data(), "0123456789", 10) == 0);
}

TEST_CASE("files and mappings move, and a mapping outlives its file") {
    const std::string path = write_file(temp_dir(), "a.bin", "0123456789");
    FileMapping       kept;
    {
        MappedFile first  = MappedFile::open(path);
        MappedFile second = std::move(first);
        MappedFile third  = MappedFile::open(path);
        third             = std::move(second);
        kept              = third.map();
    }
    FileMapping moved = std::move(kept);
    CHECK(moved.data()[9] == '9');
    CHECK(kept.data() == nullptr);
}

TEST_CASE("what is not a regular file with content is refused by name") {
    const std::string dir = temp_dir();
    CHECK(open_error(dir) == dir + ": expected a regular file, found a directory");
    CHECK(open_error(dir + "/none") == dir + "/none: cannot open: No such file or directory");
    CHECK(open_error("") == "expected a file name, found ''");
    CHECK(open_error(std::string("a\0b", 3)) == "expected a file name, found 'a\\x00b'");
    CHECK(open_error("/dev/null") == "/dev/null: expected a regular file, found a device");
    CHECK(open_error(write_file(dir, "empty", "")) == dir + "/empty: the file is empty");
    CHECK(open_error(dir + "/\n\x1b") == dir + "/\\x0a\\x1b: cannot open: No such file or directory");

    // No writer ever comes: an open that blocks would hang here.
    const std::string fifo = dir + "/fifo";
    REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
    CHECK(open_error(fifo) == fifo + ": expected a regular file, found a pipe");

    std::filesystem::create_symlink(dir + "/loop", dir + "/loop");
    CHECK(open_error(dir + "/loop").find("loop: cannot open: ") != std::string::npos);
}

TEST_CASE("an unreadable file is refused") {
    const std::string path = write_file(temp_dir(), "secret", "x");
    REQUIRE(chmod(path.c_str(), 0) == 0);
    const bool is_root = geteuid() == 0; // root reads everything
    if (is_root && seteuid(65534) != 0) {
        MESSAGE("skipped: running as root and unable to become someone else");
        return;
    }
    const std::string message = open_error(path);
    if (is_root) {
        REQUIRE(seteuid(0) == 0);
    }
    CHECK(message == path + ": cannot open: Permission denied");
}

TEST_CASE("a file that shrinks is noticed by reading, mapping and checking") {
    const std::string path    = write_file(temp_dir(), "a.bin", std::string(100000, 'x'));
    const MappedFile  file    = MappedFile::open(path);
    const FileMapping mapping = file.map();
    file.check_size();
    REQUIRE(truncate(path.c_str(), 50000) == 0);

    std::string data(100000, '\0');
    CHECK_THROWS_WITH_AS(file.read(0, data.data(), data.size()), doctest::Contains("the file shrank"), Error);
    CHECK_THROWS_WITH_AS(file.check_size(), doctest::Contains("the file shrank from 100000 to 50000 bytes"), Error);
    CHECK_THROWS_WITH_AS(file.map(), doctest::Contains("the file shrank"), Error);
    file.read(0, data.data(), 50000); // what is left can be read

    try {
        file.check_size();
    } catch (const Error & error) {
        CHECK(error.kind() == ErrorKind::runtime); // the request was right, the world changed
    }
}

TEST_CASE("a file that grows stays as it was opened") {
    const std::string path = write_file(temp_dir(), "a.bin", "0123");
    const MappedFile  file = MappedFile::open(path);
    std::filesystem::resize_file(path, 10);
    file.check_size();
    CHECK(file.size() == 4);
    CHECK(file.map().size() == 4);
}
