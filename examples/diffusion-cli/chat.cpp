#include "chat.h"

#include "attn-run.h"
#include "input-text.h"
#include "interrupt.h"
#include "line-reader.h"
#include "program.h"

#include <cstdio>
#include <unistd.h>

namespace {

const char * const help_text = "  /clear   forget the conversation\n"
                               "  /exit    quit; so does Ctrl-D, or Ctrl-C twice\n"
                               "  /help    show this\n"
                               "  a \\ at the end of a line continues the message on the next line\n"
                               "  Ctrl-C   stops an answer, or clears the line you are typing\n";

class Chat {
public:
    Chat(const Session & session, const Console & console)
        : session_(session), console_(console), on_terminal_(isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0),
          reader_(make_line_reader(on_terminal_, session.params.history ? default_history() : "")) {
        clear();
    }

    int run(const std::string & first_message) {
        if (on_terminal_) {
            std::fputs("Type /help for commands\n", stderr);
        }
        if (!first_message.empty()) {
            ask(first_message);
        }
        std::string message;
        Input       before = Input::line;
        for (Input input = before; !terminated(); before = input) {
            input = read_message(message);
            if (input == Input::end || message == "/exit") {
                return 0;
            }
            if (input == Input::interrupted && before == Input::interrupted) {
                break;
            }
            if (input == Input::interrupted) {
                show("\n(Ctrl-C again or /exit to quit)\n");
                continue; // the signal is not cleared, so that a second one ends the program
            }
            clear_interrupt();
            if (input == Input::line) {
                handle(message);
            }
        }
        return exit_interrupted;
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
            std::string line;
            const Input input = reader_->next(sign, line);
            if (input != Input::line) {
                const bool is_begun = !message.empty();
                return !is_begun ? input : input == Input::end ? Input::line : Input::cleared;
            }
            if (line.empty() || line.back() != '\\') {
                message += line;
                return Input::line;
            }
            message += line.substr(0, line.size() - 1) + "\n";
            if (message.size() > line_length_max) {
                buoy::fail("standard input: a message of more than ", line_length_max >> 20, " MiB");
            }
            sign = ". ";
        }
    }

    void handle(const std::string & message) {
        if (message.find_first_not_of(" \t\r\n") != std::string::npos) {
            reader_->remember(message);
        }
        if (message == "/clear") {
            clear();
        } else if (message == "/help") {
            std::fputs(help_text, stderr);
        } else if (message.size() > 1 && message[0] == '/' && message.find_first_of(" \n/", 1) == std::string::npos) {
            std::fprintf(stderr, "unknown command %s; /help lists the commands\n", buoy::in_quotes(message).c_str());
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
                                                            n_answer(), " for the answer exceed the context of ",
                                                            session_.context.n_ctx(), "; it was left out"));
            history_.pop_back();
            return;
        }
        AttnRun      attn(session_, console_, {prompt, history_}, ++n_asked_);
        const Answer out = answer(session_, prompt, Printed::text, attn.attach());
        attn.finish(out.generation.steps.size());
        if (const auto note = empty_note(session_, out)) {
            console_.log(buoy::LogLevel::notice, *note);
        }
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
        console_.log(buoy::LogLevel::notice, "the context is full; the oldest question and its answer are forgotten");
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
    std::unique_ptr<LineReader>    reader_;
    std::vector<buoy::ChatMessage> history_;
    int                            n_asked_ = 0;
};

} // namespace

void check_can_chat(const CliParams & params, const buoy::Vocab & vocab) {
    if (!vocab.has_chat_template()) {
        buoy::fail(buoy::printable(params.model_path),
                   ": the model has no chat template, so -cnv cannot be used; --raw -p TEXT continues a text");
    }
}

int chat(const Session & session, const Console & console, const std::string & first_message) {
    return Chat(session, console).run(first_message);
}
