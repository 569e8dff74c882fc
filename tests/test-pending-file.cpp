#include "io/pending-file.h"

#include "buoy/error.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <vector>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace buoy;
using namespace buoy::test;

namespace fs = std::filesystem;

namespace {

size_t count_files(const std::string & dir) {
    return static_cast<size_t>(std::distance(fs::directory_iterator(dir), fs::directory_iterator()));
}

void check_refused(const std::string & path, bool force, const std::string & words,
                   ErrorKind kind = ErrorKind::request) {
    try {
        const PendingFile file(path, force);
        FAIL("accepted");
    } catch (const Error & error) {
        const std::string message = error.what();
        CAPTURE(message);
        CHECK(message.find(words) != std::string::npos);
        CHECK(message.find('\n') == std::string::npos);
        CHECK(error.kind() == kind);
    }
}

} // namespace

TEST_CASE("pending file: appears when it is complete, with its mode") {
    const std::string dir  = temp_dir();
    const std::string path = dir + "/x";
    {
        PendingFile file(path, false, 0600);
        file.write("hello world", 11);
        file.truncate(5);
        file.write("!", 1);
        CHECK_FALSE(fs::exists(path));
        CHECK(fs::exists(path + ".part"));
        file.commit();
    }
    CHECK(test::read_file(path) == "hello!");
    CHECK(count_files(dir) == 1);
    struct stat info = {};
    REQUIRE(stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
    {
        PendingFile file(path, true);
        file.write("dropped", 7);
    }
    CHECK(test::read_file(path) == "hello!");
    CHECK(count_files(dir) == 1);
}

TEST_CASE("pending file: targets that are refused") {
    const std::string dir = temp_dir();
    test::write_file(dir + "/there", "x");
    fs::create_symlink(dir + "/there", dir + "/link");
    fs::create_symlink(dir + "/nowhere", dir + "/dangling");
    fs::create_directory(dir + "/dir");
    REQUIRE(mkfifo((dir + "/pipe").c_str(), 0600) == 0);
    check_refused("", true, "no output file");
    check_refused(dir + "/there", false, "`force`");
    check_refused(dir + "/link", true, "symbolic link");
    check_refused(dir + "/dangling", true, "symbolic link");
    check_refused(dir + "/dir", true, "not a regular file");
    check_refused(dir + "/pipe", true, "not a regular file");
    check_refused(dir + "/missing/x", true, "No such file or directory");
    if (geteuid() != 0) { // root writes everywhere
        fs::permissions(dir + "/dir", fs::perms::owner_read | fs::perms::owner_exec);
        check_refused(dir + "/dir/x", true, "Permission denied");
    }
    CHECK(test::read_file(dir + "/there") == "x");

    fs::create_symlink(dir + "/there", dir + "/new.part");
    check_refused(dir + "/new", true, "new.part");
    CHECK(test::read_file(dir + "/there") == "x");
}

TEST_CASE("pending file: two writers of one name, and what a killed one left") {
    const std::string        dir  = temp_dir();
    const std::string        path = dir + "/x";
    std::vector<std::string> notices;
    const LogCallback        log = [&](LogLevel level, const std::string & text) {
        CHECK(level == LogLevel::notice);
        notices.push_back(text);
    };
    {
        PendingFile first(path, false, 0600, log);
        first.write("first", 5);
        check_refused(path, false, "another run");
        check_refused(path, true, "another run");
        first.commit();
    }
    CHECK(notices.empty());
    CHECK(test::read_file(path) == "first");

    test::write_file(path + ".part", "half of it, and more than what comes");
    fs::permissions(path + ".part", fs::perms::all);
    PendingFile second(path, true, 0600, log);
    REQUIRE(notices.size() == 1);
    CHECK(notices[0].find(path + ".part") == 0);
    second.write("second", 6);
    second.commit();
    CHECK(test::read_file(path) == "second");
    CHECK((fs::status(path).permissions() & fs::perms::others_read) == fs::perms::none);
    CHECK(count_files(dir) == 1);
}

TEST_CASE("pending file: a temporary that was taken away never gets the final name") {
    const std::string dir  = temp_dir();
    const std::string path = dir + "/x";
    {
        PendingFile mine(path, false);
        mine.write("mine", 4);
        REQUIRE(fs::remove(path + ".part"));
        test::write_file(path + ".part", "somebody else's half");
        CHECK_THROWS_AS(mine.commit(), Error);
    }
    CHECK_FALSE(fs::exists(path));
    CHECK(test::read_file(path + ".part") == "somebody else's half");
}

TEST_CASE("pending file: no space leaves nothing behind") {
    const std::string dir  = temp_dir();
    rlimit            kept = {};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &kept) == 0);
    const auto before = std::signal(SIGXFSZ, SIG_IGN);
    rlimit     small  = kept;
    small.rlim_cur    = 100000;
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    ErrorKind kind = ErrorKind::request;
    try {
        PendingFile       file(dir + "/x", false);
        const std::string data(60000, 'x');
        file.write(data.data(), data.size());
        file.write(data.data(), data.size());
    } catch (const Error & error) {
        kind = error.kind();
    }
    setrlimit(RLIMIT_FSIZE, &kept);
    std::signal(SIGXFSZ, before);
    CHECK(kind == ErrorKind::runtime);
    CHECK(count_files(dir) == 0);
}
