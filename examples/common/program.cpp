#include "program.h"

#include "buoy/version.h"
#include "completion.h"
#include "console.h"
#include "interrupt.h"
#include "man-page.h"
#include "short-spins.h"
#include "standard-streams.h"
#include "suggest.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>

namespace {

constexpr const char * exit_codes =
    "Exit codes: 0 success, 1 invalid request, 2 failure while running, 130 interrupted by Ctrl-C";

constexpr const char * more_help = " (see --help)";

std::string list_line(const std::string & name, const std::string & help) {
    return "  " + name + std::string(name.size() < 13 ? 14 - name.size() : 1, ' ') + help + "\n";
}

} // namespace

Program::Program(std::string name, std::string about, Interrupt interrupt)
    : name_(std::move(name)), about_(std::move(about)), interrupt_(interrupt) {}

Command & Program::add(const std::string & command, const std::string & help) {
    Command & added = commands_.emplace_back();
    added.name      = command;
    added.help      = help;
    added.group     = group_;
    added.flags.elsewhere("models_dir", "BUOY_MODELS");
    return added;
}

Command * Program::find(const std::string & name) {
    const auto found =
        std::find_if(commands_.begin(), commands_.end(), [&](const Command & command) { return command.name == name; });
    return found != commands_.end() ? &*found : nullptr;
}

std::string Program::command_names() const {
    std::string names;
    for (size_t i = 0; i < commands_.size(); i++) {
        names += (i == 0 ? "" : i + 1 == commands_.size() ? " and " : ", ") + commands_[i].name;
    }
    return names;
}

std::string Program::help() const {
    std::string out = about_ + "\n" + (usage.empty() ? "" : "\n" + usage);
    std::string title;
    for (const Command & command : commands_) {
        if (command.name.empty()) {
            out += command.flags.help();
            continue;
        }
        const std::string group = command.group.empty() ? "Commands" : command.group;
        out += (group != title ? "\n" + group + "\n" : "") + list_line(command.name, command.help);
        title = group;
    }
    out += title.empty() ? "" : "\n" + name_ + " COMMAND --help lists a command's flags.\n";
    return out + "\n" + exit_codes + (notes.empty() ? "." : "\n" + notes) + "\n";
}

std::string Program::help(const Command & command) const {
    return name_ + " " + command.name + ": " + command.help + "\n" + command.flags.help();
}

std::string Program::manual() const {
    std::string out = "# " + name_ + "\n\n<!-- made by " + name_ + " --help-markdown -->\n\n" +
                      (introduction.empty() ? about_ : introduction) + "\n";
    std::string commands;
    for (const Command & command : commands_) {
        if (command.name.empty()) {
            out += "\n## Flags\n" + command.flags.markdown();
        } else {
            commands += "\n## " + command.name + "\n\n" + command.help + "\n" + command.flags.markdown();
        }
    }
    return out + chapters + commands;
}

int Program::report(const std::string & message, int exit_code) const {
    print_note(name_, chosen_ != nullptr ? chosen_->flags.in_flags(message) : message);
    return exit_code;
}

std::string Program::described(const std::string & form) const {
    return form == "--help-markdown" ? manual()
           : form == "--help-man"    ? man_page(*this)
           : form == "--help-bash"   ? bash_completion(*this)
           : form == "--help-zsh"    ? zsh_completion(*this)
           : form == "--help-fish"   ? fish_completion(*this)
                                     : "";
}

Command * Program::choose(const std::string & first) {
    Command * const named = first.empty() ? nullptr : find(first);
    Command * const other = find("");
    if (named != nullptr) {
        return named;
    }
    if (!first.empty() && first[0] == '-') {
        const bool known = first == "-h" || first == "--help" || first == "--version";
        if (other == nullptr && !known) {
            buoy::fail(buoy::printable(first), ": the command comes first; the commands are ", command_names(),
                       more_help);
        }
        return other;
    }
    std::vector<std::string> names;
    for (const Command & command : commands_) {
        names.push_back(command.name);
    }
    const std::string near = did_you_mean(first, names);
    if (other == nullptr && first.empty()) {
        buoy::fail("no command given; the commands are ", command_names(), more_help);
    }
    // a file may be called like that
    if (!first.empty() && (other == nullptr || (!near.empty() && !std::filesystem::exists(first)))) {
        buoy::fail("unknown command ", buoy::in_quotes(first),
                   near.empty() ? "; the commands are " + command_names() + more_help : near);
    }
    return other;
}

int Program::run(const std::vector<std::string> & args) {
    for (Command & command : commands_) {
        command.flags.add_common();
    }
    const std::string first = args.empty() ? "" : args[0];
    if (const std::string text = described(first); !text.empty()) {
        print_text(text);
        return 0;
    }
    Command *                command = choose(first);
    const bool               named   = command != nullptr && !command->name.empty();
    FlagTable                own; // of a program that needs a command
    std::vector<std::string> given;
    using Asked       = FlagTable::Asked;
    FlagTable & flags = command != nullptr ? command->flags : own;
    chosen_           = command;
    switch (flags.parse({args.begin() + (named ? 1 : 0), args.end()}, given)) {
        case Asked::help: print_text(named ? help(*command) : help()); return 0;
        case Asked::version: print_text(name_ + " " + buoy::version() + "\n"); return 0;
        case Asked::run: break;
    }
    command->given = given;
    return command->run(*command);
}

int Program::main(int argc, char ** argv) {
    open_standard_streams();
    use_short_spins(argv);
    install_signal_handlers(name_, interrupt_ == Interrupt::asked);
    try {
        const int exit_code = run({argv + std::min(argc, 1), argv + argc});
        if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
            buoy::fail_runtime("cannot write to standard output");
        }
        return exit_code;
    } catch (const buoy::Error & error) {
        if (error.kind() == buoy::ErrorKind::request) {
            return report(error.what(), 1);
        }
        report(error.what(), 2);
        std::fflush(nullptr);
        std::_Exit(2); // a thread may wait for a lost RPC server; nothing is taken down under it
    } catch (const std::bad_alloc &) {
        return report("out of memory", 2);
    } catch (const std::exception & error) {
        return report(buoy::printable(error.what()), 2);
    }
}
