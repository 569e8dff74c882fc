#include "base/run-apart.h"

#include "buoy/message.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <new>
#include <stdexcept>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace buoy {

namespace {

using Clock = std::chrono::steady_clock;
using End   = ApartResult::End;

// Far above what a busy machine makes of the time that a copy may use.
constexpr std::chrono::seconds wait_max{120};
// A copy that has used no time for so long waits for a lock that another thread held at the fork; a sanitizer's allocator has such locks.
constexpr std::chrono::seconds idle_max{3};

// The first byte of what the copy sends.
constexpr char mark_done      = 'd';
constexpr char mark_failed    = 'f';
constexpr char mark_too_large = 'l';

void set_limit(int resource, rlim_t soft, rlim_t hard) {
    rlimit limit = {};
    getrlimit(static_cast<decltype(RLIMIT_CPU)>(resource), &limit);
    limit.rlim_cur = std::min(soft, limit.rlim_max);
    limit.rlim_max = std::min(hard, limit.rlim_max);
    setrlimit(static_cast<decltype(RLIMIT_CPU)>(resource), &limit);
}

// Bytes of address space in use; 0 where the system does not say.
uint64_t address_space() {
    uint64_t n_pages = 0;
    if (std::FILE * file = std::fopen("/proc/self/statm", "r")) {
        unsigned long long n = 0;
        n_pages              = std::fscanf(file, "%llu", &n) == 1 ? n : 0;
        std::fclose(file);
    }
    return n_pages * static_cast<uint64_t>(std::max(sysconf(_SC_PAGESIZE), 1L));
}

void become_plain() {
    struct sigaction action = {};
    action.sa_handler       = SIG_DFL;
    for (const int signal : {SIGHUP, SIGBUS, SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGXCPU}) {
        sigaction(signal, &action, nullptr);
    }
    action.sa_handler = SIG_IGN; // Ctrl-C and the like are for the parent, with which the copy ends
    for (const int signal : {SIGINT, SIGTERM, SIGQUIT}) {
        sigaction(signal, &action, nullptr);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    setenv("GGML_NO_BACKTRACE", "1", 1); // else a failed assertion starts a debugger
    const int nowhere = open("/dev/null", O_RDWR);
    if (nowhere >= 0) {
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
    }
}

bool send(int fd, const char * data, size_t size) {
    while (size > 0) {
        const ssize_t n = write(fd, data, size);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        data += n > 0 ? n : 0;
        size -= n > 0 ? static_cast<size_t>(n) : 0;
    }
    return true;
}

[[noreturn]] void be_copy(int out, const std::function<std::string()> & work, const ApartLimits & limits) {
    become_plain();
    set_limit(RLIMIT_CORE, 0, 0);
    set_limit(RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + 1);
    if (const uint64_t used = address_space(); used > 0) {
        set_limit(RLIMIT_AS, used + limits.memory, used + limits.memory);
    }
    char        mark = mark_failed;
    std::string text;
    try {
        text = work();
        mark = mark_done;
    } catch (const std::bad_alloc &) {
        mark = mark_too_large;
    } catch (const std::length_error &) {
        mark = mark_too_large;
    } catch (const std::exception & error) {
        text = error.what();
    } catch (...) {
        text = "unknown exception";
    }
    const bool sent = send(out, &mark, 1) && send(out, text.data(), text.size());
    _exit(sent ? 0 : 1);
}

enum class Receipt { whole, too_much, idle, late };

// What the copy has used of the processor. Where the system does not say, a value that always grows: no copy counts as idle there.
int64_t nanoseconds_used(pid_t pid) {
#ifdef __linux__
    clockid_t clock = {};
    timespec  used  = {};
    if (clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &used) == 0) {
        return static_cast<int64_t>(used.tv_sec) * 1'000'000'000 + used.tv_nsec;
    }
#else
    (void)pid;
#endif
    return Clock::now().time_since_epoch().count();
}

// Until the copy has closed its end.
Receipt receive(int in, pid_t pid, size_t size_max, Clock::time_point end, std::string & text) {
    std::array<char, 65536> bytes{};
    int64_t                 used   = 0;
    Clock::time_point       active = Clock::now();
    while (true) {
        pollfd wait = {in, POLLIN, 0};
        if (poll(&wait, 1, 500) > 0) {
            const ssize_t n = read(in, bytes.data(), bytes.size());
            if (n == 0 || (n < 0 && errno != EINTR)) {
                return Receipt::whole;
            }
            text.append(bytes.data(), static_cast<size_t>(std::max<ssize_t>(n, 0)));
            if (text.size() > size_max) {
                return Receipt::too_much;
            }
        }
        const auto now = Clock::now();
        if (now > end) {
            return Receipt::late;
        }
        if (const int64_t used_now = nanoseconds_used(pid); used_now != used) {
            used   = used_now;
            active = now;
        } else if (now - active > idle_max) {
            return Receipt::idle;
        }
    }
}

ApartResult result_of(std::string && sent, Receipt receipt, int status) {
    if (receipt != Receipt::whole) {
        return {receipt == Receipt::too_much ? End::too_large : End::too_long, ""};
    }
    if (WIFSIGNALED(status)) {
        const int signal = WTERMSIG(status);
        // nobody but a system without memory kills it
        return {signal == SIGXCPU ? End::too_long : signal == SIGKILL ? End::too_large : End::crashed, ""};
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || sent.empty()) {
        return {End::crashed, ""};
    }
    const End end = sent[0] == mark_done ? End::done : sent[0] == mark_too_large ? End::too_large : End::failed;
    return {end, sent.substr(1)};
}

// One copy, from its fork to its end.
Receipt run_copy(const std::function<std::string()> & work, const ApartLimits & limits, Clock::time_point end,
                 std::string & sent, int & status) {
    int ends[2];
    if (pipe(ends) != 0) {
        fail_runtime("can't create a pipe: ", std::strerror(errno));
    }
    for (const int fd : ends) {
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    sigset_t all, before; // no handler of ours runs in the copy
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t pid   = fork();
    const int   error = errno;
    if (pid == 0) {
        close(ends[0]);
        be_copy(ends[1], work, limits);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        fail_runtime("can't start a process: ", std::strerror(error));
    }
    const Receipt receipt = receive(ends[0], pid, limits.result_max + 1, end, sent);
    close(ends[0]);
    if (receipt != Receipt::whole) {
        kill(pid, SIGKILL);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return receipt;
}

} // namespace

ApartResult run_apart(const std::function<std::string()> & work, const ApartLimits & limits) {
    const Clock::time_point end = Clock::now() + wait_max;
    while (true) {
        std::string   sent;
        int           status  = 0;
        const Receipt receipt = run_copy(work, limits, end, sent, status);
        if (receipt != Receipt::idle || Clock::now() > end) {
            return result_of(std::move(sent), receipt, status);
        }
    }
}

} // namespace buoy
