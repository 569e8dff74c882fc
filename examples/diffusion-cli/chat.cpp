#include "chat.h"

#include "attn-run.h"
#include "interrupt.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace {

const char * const help_text = "  /clear   forget the conversation\n"
                               "  /exit    leave, as does the end of the input (Ctrl-D) or Ctrl-C twice\n"
                               "  /help    this\n"
                               "  a \\ at the end of a line goes on with the message in the next line\n"
                               "  Ctrl-C   stops an answer\n";

enum class Input { line, end, interrupted };

// Lines of standard input. Not a stream: reading must end when Ctrl-C comes.
class LineReader {
public:
    Input next(std::string & line) {
        while (true) {
            const size_t newline = held_.find('\n');
            if (newline != std::string::npos) {
                line = held_.substr(0, newline);
                held_.erase(0, newline + 1);
                return Input::line;
            }
            char          bytes[4096];
            const ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
            if (n < 0 && errno == EINTR) {
                held_.clear();
                return Input::interrupted;
            }
            if (n < 0) {
                buoy::fail_runtime("standard input could not be read: ", std::strerror(errno));
            }
            if (n == 0) { // the last line may lack its newline
                line.swap(held_);
                held_.clear();
                return line.empty() ? Input::end : Input::line;
            }
            held_.append(bytes, static_cast<size_t>(n));
        }
    }

private:
    std::string held_;
};

class Chat {
public:
    Chat(const Session & session, const Console & console)
        : session_(session), console_(console), on_terminal_(isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0) {
        clear();
    }

    int run(const std::string & first_message) {
        if (on_terminal_) {
            std::fputs("/help tells what can be typed here\n", stderr);
        }
        if (!first_message.empty()) {
            ask(first_message);
        }
        std::string message;
        while (!terminated()) {
            const Input input = read_message(message);
            if (input == Input::end || message == "/exit") {
                return 0;
            }
            if (input == Input::interrupted) {
                show("\n(Ctrl-C again or /exit to leave)\n");
                continue; // not cleared, so that a second one ends the program
            }
            clear_interrupt();
            handle(message);
        }
        return 130;
    }

private:
    void clear() {
        history_.clear();
        if (!session_.params.system.empty()) {
            history_.push_back({"system", session_.params.system});
        }
    }

    // A message, several lines where they end with a backslash.
    Input read_message(std::string & message) {
        message.clear();
        const char * sign = "> ";
        while (true) {
            show(sign);
            std::string line;
            const Input input = reader_.next(line);
            if (input != Input::line) {
                return input == Input::end && !message.empty() ? Input::line : input;
            }
            if (line.empty() || line.back() != '\\') {
                message += line;
                return Input::line;
            }
            message += line.substr(0, line.size() - 1) + "\n";
            sign = ". ";
        }
    }

    void handle(const std::string & message) {
        if (message == "/clear") {
            clear();
        } else if (message == "/help") {
            std::fputs(help_text, stderr);
        } else if (message.size() > 1 && message[0] == '/' && message.find_first_of(" \n/", 1) == std::string::npos) {
            std::fprintf(stderr, "unknown command %s, /help lists them\n", buoy::in_quotes(message).c_str());
        } else if (message.find_first_not_of(" \t\r\n") != std::string::npos) {
            ask(message);
        }
    }

    void ask(const std::string & message) {
        history_.push_back({"user", message});
        std::vector<int32_t> prompt = session_.vocab.encode_chat(history_, true);
        while (!fits(prompt) && forget_oldest()) {
            prompt = session_.vocab.encode_chat(history_, true);
        }
        if (!fits(prompt)) {
            console_.log(buoy::LogLevel::warn, buoy::concat("the message has ", prompt.size(), " tokens, which with ",
                                                            n_answer(), " of the answer exceed the context of ",
                                                            session_.context.n_ctx(), "; it is left out"));
            history_.pop_back();
            return;
        }
        AttnRun      attn(session_, console_, {prompt, history_}, ++n_asked_);
        const Answer out = answer(session_, prompt, Printed::text, attn.attach());
        attn.finish(out.generation.steps.size());
        history_.push_back({"assistant", out.text});
        if (session_.params.verbose) {
            console_.log(buoy::LogLevel::info, timings_text(session_, out.generation));
        }
        clear_interrupt(); // it stopped the answer
    }

    bool fits(const std::vector<int32_t> & prompt) const {
        return static_cast<int64_t>(prompt.size()) + n_answer() <= session_.context.n_ctx();
    }

    // with -n -1 an answer takes what is left, and one token at least
    int32_t n_answer() const {
        const int32_t n = session_.params.generate.n_predict;
        return n < 0 ? 1 : n;
    }

    // Drops the oldest question with its answer, the system message stays.
    bool forget_oldest() {
        const size_t first = session_.params.system.empty() ? 0 : 1;
        if (history_.size() < first + 3) {
            return false;
        }
        history_.erase(history_.begin() + static_cast<std::ptrdiff_t>(first),
                       history_.begin() + static_cast<std::ptrdiff_t>(first) + 2);
        console_.log(buoy::LogLevel::notice, "the context is full, the oldest question and its answer are forgotten");
        return true;
    }

    void show(const char * text) const {
        if (on_terminal_) {
            std::fputs(text, stderr);
            std::fflush(stderr);
        }
    }

    const Session &                session_;
    const Console &                console_;
    const bool                     on_terminal_;
    LineReader                     reader_;
    std::vector<buoy::ChatMessage> history_;
    int                            n_asked_ = 0;
};

} // namespace

void check_can_chat(const CliParams & params, const buoy::Vocab & vocab) {
    if (!vocab.has_chat_template()) {
        buoy::fail(buoy::printable(params.model_path),
                   ": no chat template, so -cnv can't be used; --raw -p TEXT continues a text");
    }
}

int chat(const Session & session, const Console & console, const std::string & first_message) {
    return Chat(session, console).run(first_message);
}
