// Work in another process: whatever becomes of it there, we hear of it.

#include "base/run-apart.h"

#include "buoy/message.h"
#include "support/gguf-bytes.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace buoy;
using namespace buoy::test;

using End = ApartResult::End;

namespace {

int recurse(int depth) {
    volatile char room[4096] = {};
    room[depth % 4096]       = 1;
    return depth < 0 ? 0 : recurse(depth + 1) + room[0];
}

std::string endless() {
    volatile unsigned n = 0;
    while (true) {
        n = n + 1;
    }
}

} // namespace

TEST_CASE("run apart: what is returned and thrown arrives whole") {
    CHECK(run_apart([] { return std::string(); }).end == End::done);
    const std::string much(10u << 20, 'x'); // more than a pipe holds
    const ApartResult whole = run_apart([&] { return much + std::string("\0\xff", 2); });
    CHECK(whole.end == End::done);
    CHECK(whole.text == much + std::string("\0\xff", 2));
    const ApartResult thrown = run_apart([]() -> std::string { fail("why"); });
    CHECK(thrown.end == End::failed);
    CHECK(thrown.text == "why");
}

TEST_CASE("run apart: death is noticed") {
    CHECK(run_apart([]() -> std::string { std::abort(); }).end == End::crashed);
    CHECK(run_apart([]() -> std::string { _exit(3); }).end == End::crashed);
    CHECK(run_apart([]() -> std::string { return std::to_string(recurse(0)); }).end == End::crashed);
    CHECK(run_apart([]() -> std::string { throw std::bad_alloc(); }).end == End::too_large);
    CHECK(run_apart([]() -> std::string {
              raise(SIGKILL);
              return "";
          }).end == End::too_large);
}

TEST_CASE("run apart: time, memory and results are limited") {
    ApartLimits limits;
    limits.cpu_seconds = 1;
    limits.memory      = 64u << 20;
    limits.result_max  = 1u << 20;
    CHECK(run_apart(endless, limits).end == End::too_long);
    CHECK(run_apart([] { return std::string((1u << 20) + 1, 'x'); }, limits).end == End::too_large);
    CHECK(run_apart([] { return std::string(1u << 20, 'x'); }, limits).end == End::done);
#ifdef __linux__
    if (!is_sanitized()) {
        CHECK(run_apart([] { return std::string(256u << 20, 'x').substr(0, 1); }, limits).end == End::too_large);
    }
#endif
}

TEST_CASE("run apart: nothing it does or prints reaches us, and nothing is left of it") {
    int  changed = 0;
    auto work    = [&] {
        changed = 1;
        std::fputs("printed by the copy", stdout);
        std::fflush(stdout);
        return std::string("done");
    };
    CHECK(run_apart(work).text == "done");
    CHECK(changed == 0);
    CHECK(waitpid(-1, nullptr, WNOHANG) <= 0);
}

TEST_CASE("run apart: a failed assertion of ggml's starts no debugger") {
    const std::string dir = temp_dir();
    for (const char * name : {"gdb", "lldb"}) {
        write_file(dir, name, "#!/bin/sh\ntouch " + dir + "/started\n");
        std::filesystem::permissions(dir + "/" + name, std::filesystem::perms::owner_all);
    }
    const std::string path = std::getenv("PATH");
    setenv("PATH", (dir + ":" + path).c_str(), 1);
    CHECK(run_apart([]() -> std::string { GGML_ABORT("planted"); }).end == End::crashed);
    setenv("PATH", path.c_str(), 1);
    CHECK_FALSE(std::filesystem::exists(dir + "/started"));
}

TEST_CASE("run apart: several threads at once") {
    std::vector<std::thread> threads;
    std::vector<std::string> texts(8);
    for (size_t i = 0; i < texts.size(); i++) {
        threads.emplace_back([&, i] { texts[i] = run_apart([i] { return std::to_string(i); }).text; });
    }
    for (size_t i = 0; i < texts.size(); i++) {
        threads[i].join();
        CHECK(texts[i] == std::to_string(i));
    }
}

#ifdef __linux__
TEST_CASE("run apart: a lock that another thread held at the fork costs a second copy, not the answer") {
    std::mutex        lock;
    std::atomic<bool> held = false;
    std::thread       holder([&] {
        const std::lock_guard guard(lock);
        held = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
    });
    while (!held) {
        std::this_thread::yield();
    }
    const ApartResult result = run_apart([&] {
        const std::lock_guard guard(lock);
        return std::string("done");
    });
    holder.join();
    CHECK(result.end == End::done);
    CHECK(result.text == "done");
}
#endif
