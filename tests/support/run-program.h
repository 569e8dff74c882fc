#pragma once

#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

namespace buoy::test {

struct ProgramSpec {
    std::string                        name; // one of ours, by its file name
    std::vector<std::string>           args;
    std::map<std::string, std::string> env;    // added to ours
    std::string                        input;  // a file as standard input; empty: /dev/null
    std::string                        output; // a file as standard output, such as /dev/full; empty: one of ours
    bool                               stdout_closed = false;
    bool                               terminal      = false; // standard error is one
    bool                               terminal_out  = false; // standard output is the same one
    unsigned short                     columns       = 80;    // of it
    double                             seconds_max   = 300;   // for programs that hang: a busy machine is no fault
};

struct ProgramResult {
    int         code      = 0; // 128 + the signal where one ended it
    bool        timed_out = false;
    double      seconds   = 0;
    std::string out;
    std::string err;

    bool is_one_line() const; // on standard error
};

// A program that runs. What it prints goes into files, so it never waits for us.
class Program {
public:
    explicit Program(const ProgramSpec & spec);
    ~Program();

    Program(const Program &)             = delete;
    Program & operator=(const Program &) = delete;

    pid_t pid() const { return pid_; }

    // Waits until the program has a handler for the signal, or a file of that name mapped. False where it ended before,
    // where it takes too long, or where the system has no /proc to tell.
    bool await_handler(int signal) const;
    bool await_mapping(const std::string & path) const;

    void          send(int signal) const;
    ProgramResult finish();

private:
    template <typename Condition> bool await(const Condition & condition) const;

    ProgramSpec spec_;
    std::string dir_;
    int         terminal_[2] = {-1, -1}; // ours and the program's end
    pid_t       pid_         = -1;
    double      begin_       = 0;
};

ProgramResult run_program(const ProgramSpec & spec);

// Catches a program in the middle of something: calls attempt(milliseconds to wait before) with longer and longer pauses until it returns
// true, so that a busy machine, where everything begins later, is tried again.
template <typename Attempt> bool caught(const Attempt & attempt) {
    for (const int ms : {300, 1200, 5000, 20000}) {
        if (attempt(ms)) {
            return true;
        }
    }
    return false;
}

void pause_for(int ms);

} // namespace buoy::test
