#pragma once

#include "flags.h"

#include <deque>
#include <functional>
#include <string>
#include <vector>

constexpr int exit_interrupted = 130;

// One thing that a program does: a subcommand, or what it does without one.
struct Command {
    std::string                                name; // empty: without one
    std::string                                help; // one line
    std::string                                group;
    FlagTable                                  flags;
    std::vector<std::string>                   given; // flags that were set, by their long names
    std::function<int(const Command & itself)> run;   // returns the exit code
};

// What every program is: a name, commands, and texts for --help, docs/cli.md and the man page.
class Program {
public:
    enum class Interrupt {
        at_once, // Ctrl-C ends the program
        asked,   // the program asks interrupted() and ends when it is ready
    };

    Program(std::string name, std::string about, Interrupt interrupt);

    // What `run` captures must hold what the command's flags set. References stay valid.
    Command & add(const std::string & command, const std::string & help);
    void      group(const std::string & title) { group_ = title; } // of the commands added from here on

    const std::string &         name() const { return name_; }
    const std::string &         about() const { return about_; }
    const std::deque<Command> & commands() const { return commands_; }

    std::string usage;        // lines of --help
    std::string notes;        // the last lines of --help
    std::string introduction; // of the manual; empty: as --help begins
    std::string chapters;     // of the manual, behind the flags

    // The whole of main. Turns what is thrown into one line on standard error and the exit code: 1 the request was wrong, 2 it
    // failed while running, 130 interrupted.
    int main(int argc, char ** argv);

private:
    Command *   find(const std::string & name);
    Command *   choose(const std::string & first_arg); // null where only --help and the like can follow
    std::string command_names() const;
    std::string help() const;
    std::string help(const Command & command) const;
    std::string manual() const;
    std::string described(const std::string & form) const; // what the build asks for: --help-man…; else empty
    int         run(const std::vector<std::string> & args);
    int         report(const std::string & message, int exit_code) const;

    std::string         name_;
    std::string         about_;
    std::string         group_;
    Interrupt           interrupt_;
    std::deque<Command> commands_;
    const Command *     chosen_ = nullptr;
};
