#pragma once

#include <memory>
#include <string>

enum class Input {
    line,
    end,
    cleared,     // Ctrl-C took back what was typed
    interrupted, // Ctrl-C, and nothing had been typed
};

// Lines of standard input.
class LineReader {
public:
    virtual ~LineReader() = default;

    virtual Input next(const std::string & prompt, std::string & line) = 0;

    // A whole message, for the history.
    virtual void remember(const std::string &) {}
};

// Where they are typed at a terminal and the build has libedit, lines are edited, and messages kept in the file `history` if it
// is not empty. Prompts are shown on a terminal only, on standard error like everything that is typed.
std::unique_ptr<LineReader> make_line_reader(bool on_terminal, const std::string & history);

// ${XDG_STATE_HOME:-~/.local/state}/buoy/chat-history; empty where neither is known.
std::string default_history();
