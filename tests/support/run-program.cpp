#include "support/run-program.h"

#include "support/paths.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char ** environ;

namespace buoy::test {

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void pause_briefly() { pause_for(2); }

std::string read_all(const std::string & path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<char *> pointers(std::vector<std::string> & texts) {
    std::vector<char *> list;
    for (std::string & text : texts) {
        list.push_back(text.data());
    }
    list.push_back(nullptr);
    return list;
}

std::vector<std::string> environment(const std::map<std::string, std::string> & added) {
    std::vector<std::string> all;
    for (char ** entry = environ; *entry != nullptr; ++entry) {
        const std::string text = *entry;
        if (added.count(text.substr(0, text.find('='))) == 0) {
            all.push_back(text);
        }
    }
    for (const auto & [name, value] : added) {
        all.push_back(name + "=" + value);
    }
    return all;
}

// Opens both ends of a terminal, so that what is written there waits for us; returns the name of the program's.
std::string open_terminal(int (&ends)[2], unsigned short columns) {
    ends[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ends[0] < 0 || grantpt(ends[0]) != 0 || unlockpt(ends[0]) != 0) {
        throw std::runtime_error("no terminal can be made here");
    }
    const std::string name = ptsname(ends[0]);
    ends[1]                = open(name.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    winsize size = {};
    size.ws_row  = 24;
    size.ws_col  = columns;
    ioctl(ends[0], TIOCSWINSZ, &size);
    return name;
}

std::string read_waiting(int fd) {
    std::string text;
    char        bytes[4096];
    for (ssize_t n = 0; (n = read(fd, bytes, sizeof(bytes))) > 0;) {
        text.append(bytes, static_cast<size_t>(n));
    }
    return text;
}

} // namespace

bool ProgramResult::is_one_line() const {
    return std::count(err.begin(), err.end(), '\n') == 1 && err.size() > 1 && err.back() == '\n';
}

Program::Program(const ProgramSpec & spec) : spec_(spec), dir_(temp_dir()), begin_(now()) {
    std::vector<std::string> args{bin_dir() + "/" + spec.name};
    args.insert(args.end(), spec.args.begin(), spec.args.end());
    std::vector<std::string> env    = environment(spec.env);
    const std::string        input  = spec.input.empty() ? "/dev/null" : spec.input;
    const std::string        errors = spec.terminal ? open_terminal(terminal_, spec.columns) : dir_ + "/err";
    const std::string        output = spec.terminal_out ? errors : spec.output.empty() ? dir_ + "/out" : spec.output;

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, input.c_str(), O_RDONLY, 0);
    if (spec.stdout_closed) {
        posix_spawn_file_actions_addclose(&actions, STDOUT_FILENO);
    } else {
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_NOCTTY, 0600);
    }
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.c_str(), O_WRONLY | O_CREAT | O_NOCTTY, 0600);
    const int error =
        posix_spawn(&pid_, args[0].c_str(), &actions, nullptr, pointers(args).data(), pointers(env).data());
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
        throw std::runtime_error("cannot start " + args[0]);
    }
}

Program::~Program() {
    for (const int fd : terminal_) {
        if (fd >= 0) {
            close(fd);
        }
    }
    if (pid_ > 0) {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
}

template <typename Condition> bool Program::await(const Condition & condition) const {
    while (now() - begin_ < spec_.seconds_max) {
        siginfo_t info{};
        if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid_) {
            return false;
        }
        if (condition()) {
            return true;
        }
        pause_briefly();
    }
    return false;
}

bool Program::await_handler(int signal) const {
    return await([&] {
        std::ifstream in("/proc/" + std::to_string(pid_) + "/status");
        for (std::string line; std::getline(in, line);) {
            if (line.rfind("SigCgt:", 0) == 0) {
                return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0;
            }
        }
        return false;
    });
}

bool Program::await_mapping(const std::string & path) const {
    return await([&] { return read_all("/proc/" + std::to_string(pid_) + "/maps").find(path) != std::string::npos; });
}

void Program::send(int signal) const { kill(pid_, signal); }

ProgramResult Program::finish() {
    ProgramResult result;
    int           status = 0;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
        if (now() - begin_ > spec_.seconds_max) {
            result.timed_out = true;
            kill(pid_, SIGKILL);
            waitpid(pid_, &status, 0);
            break;
        }
        pause_briefly();
    }
    pid_           = -1;
    result.seconds = now() - begin_;
    result.code    = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    result.out     = read_all(dir_ + "/out");
    result.err     = spec_.terminal ? read_waiting(terminal_[0]) : read_all(dir_ + "/err");
    return result;
}

ProgramResult run_program(const ProgramSpec & spec) { return Program(spec).finish(); }

void pause_for(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

} // namespace buoy::test
