#include "line-editor.h"

#ifdef BUOY_LIBEDIT

#include "input-text.h"
#include "interrupt.h"

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <filesystem>
#include <histedit.h>
#include <langinfo.h>
#include <optional>
#include <string_view>
#include <unistd.h>

namespace {

constexpr int n_history_max = 1000;

// A change of the window's size ends a read; only while a line is read, since other reads would not expect it.
class WindowWatch {
public:
    WindowWatch() {
        struct sigaction action = {};
        action.sa_handler       = [](int) {};
        sigemptyset(&action.sa_mask);
        sigaction(SIGWINCH, &action, &before_);
    }
    ~WindowWatch() { sigaction(SIGWINCH, &before_, nullptr); }

    WindowWatch(const WindowWatch &)             = delete;
    WindowWatch & operator=(const WindowWatch &) = delete;

private:
    struct sigaction before_ = {};
};

// Terminals say then where a paste begins and ends.
class PasteMarks {
public:
    PasteMarks() { std::fputs("\033[?2004h", stderr); }
    ~PasteMarks() { std::fputs("\033[?2004l", stderr), std::fflush(stderr); }

    PasteMarks(const PasteMarks &)             = delete;
    PasteMarks & operator=(const PasteMarks &) = delete;
};

class LineEditor : public LineReader {
public:
    explicit LineEditor(const std::string & history)
        : history_path_(history), editor_(el_init("llama-diffusion-cli", stdin, stderr, stderr)),
          history_(history_init()) {
        HistEvent event;
        ::history(history_.get(), &event, H_SETSIZE, n_history_max);
        ::history(history_.get(), &event, H_SETUNIQUE, 1);
        load_history();
        EditLine * el = editor_.get();
        el_set(el, EL_CLIENTDATA, this);
        el_set(el, EL_PROMPT, show_prompt);
        el_set(el, EL_EDITOR, "emacs");
        el_set(el, EL_SIGNAL, 0); // it would send what it gets to the whole process group
        el_set(el, EL_GETCFN, read_char);
        el_set(el, EL_HIST, ::history, history_.get());
        el_set(el, EL_SETTY, "-d", "-isig", nullptr); // Ctrl-C and Ctrl-Z are keys here
        el_set(el, EL_ADDFN, "buoy-clear", "take back the line", on_clear);
        el_set(el, EL_ADDFN, "buoy-suspend", "stop the program", on_suspend);
        el_set(el, EL_ADDFN, "buoy-paste", "insert what is pasted", on_paste);
        static constexpr const char * keys[][2] = {
            {"^C", "buoy-clear"},         {"^Z", "buoy-suspend"},        {"\\e[200~", "buoy-paste"},
            {"^R", "em-inc-search-prev"}, {"^W", "ed-delete-prev-word"}, {"\\e[3~", "ed-delete-next-char"},
            {"\\e[1~", "ed-move-to-beg"}, {"\\e[4~", "ed-move-to-end"},  {"\\e[1;5C", "em-next-word"},
            {"\\e[1;5D", "ed-prev-word"},
        };
        for (const auto & [key, function] : keys) {
            el_set(el, EL_BIND, key, function, nullptr);
        }
        el_source(el, nullptr); // ~/.editrc
    }

    bool works() const { return editor_ && history_; }

    Input next(const std::string & prompt, std::string & line) override {
        prompt_  = prompt;
        cleared_ = false;
        typed_   = false;
        const WindowWatch watch;
        const PasteMarks  marks;
        el_resize(editor_.get());
        el_set(editor_.get(), EL_PREP_TERM, 1); // before the prompt invites to type
        int          n    = 0;
        const char * text = el_gets(editor_.get(), &n);
        if (cleared_) {
            std::fputs("^C\n", stderr);
            return typed_ ? Input::cleared : Input::interrupted;
        }
        if (text == nullptr || n <= 0) {
            std::fputs("\n", stderr);
            return n < 0 && errno == EINTR ? Input::interrupted : Input::end;
        }
        line.assign(text, static_cast<size_t>(n));
        if (line.back() == '\n') {
            line.pop_back();
        }
        return Input::line;
    }

    // Another chat may have written meanwhile: the file is read again first.
    void remember(const std::string & message) override {
        HistEvent event;
        load_history();
        ::history(history_.get(), &event, H_ENTER, message.c_str());
        if (history_path_.empty()) {
            return;
        }
        std::error_code             ignored; // a history that can't be kept is no reason to stop
        const std::filesystem::path path(history_path_);
        if (!std::filesystem::exists(path.parent_path(), ignored)) {
            std::filesystem::create_directories(path.parent_path(), ignored);
            std::filesystem::permissions(path.parent_path(), std::filesystem::perms::owner_all, ignored);
        }
        const std::string part = history_path_ + "." + std::to_string(getpid());
        if (::history(history_.get(), &event, H_SAVE, part.c_str()) >= 0) { // which makes it 0600
            std::filesystem::rename(part, path, ignored);
        }
    }

private:
    struct End {
        void operator()(EditLine * el) const { el_end(el); }
        void operator()(History * history) const { history_end(history); }
    };

    static LineEditor & of(EditLine * el) {
        void * self = nullptr;
        el_get(el, EL_CLIENTDATA, &self);
        return *static_cast<LineEditor *>(self);
    }

    static char * show_prompt(EditLine * el) { return of(el).prompt_.data(); }

    // libedit's own goes on after a signal.
    static int read_char(EditLine * el, wchar_t * out) {
        std::optional<char> & left  = of(el).byte_left_;
        std::mbstate_t        state = {};
        for (bool begun = false;; begun = true) {
            char byte = left.value_or('\0');
            while (!left) {
                const ssize_t n = read(STDIN_FILENO, &byte, 1);
                if (n < 0 && errno == EINTR && !interrupted()) {
                    el_resize(el);
                    el_set(el, EL_REFRESH);
                    continue;
                }
                if (n <= 0) {
                    return static_cast<int>(n);
                }
                break;
            }
            left.reset();
            const size_t size = std::mbrtowc(out, &byte, 1, &state);
            if (size == static_cast<size_t>(-2)) {
                continue; // more of it comes
            }
            if (size == static_cast<size_t>(-1)) { // not UTF-8; a byte that breaks a character off begins the next one
                *out = L'\ufffd';
                left = begun ? std::optional(byte) : std::nullopt;
            }
            return 1;
        }
    }

    static unsigned char on_clear(EditLine * el, int) {
        const LineInfoW * line = el_wline(el);
        of(el).cleared_        = true;
        of(el).typed_          = line->lastchar != line->buffer;
        el_cursor(el, static_cast<int>(line->lastchar - line->cursor));
        el_set(el, EL_REFRESH);
        return CC_EOF;
    }

    static unsigned char on_suspend(EditLine * el, int) {
        el_set(el, EL_PREP_TERM, 0);
        std::fputs("\n", stderr);
        raise(SIGTSTP);
        el_set(el, EL_PREP_TERM, 1);
        return CC_REDISPLAY;
    }

    // Pasted lines stay one message.
    static unsigned char on_paste(EditLine * el, int) {
        static constexpr std::wstring_view end = L"\033[201~";
        std::wstring                       text;
        wchar_t                            c = 0;
        while (el_wgetc(el, &c) == 1) {
            text += c == L'\r' ? L'\n' : c;
            if (text.size() > line_length_max) {
                text.clear(); // no paste that anybody meant
            }
            if (text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0) {
                text.resize(text.size() - end.size());
                break;
            }
        }
        std::erase_if(text, [](wchar_t each) { return each < L' ' && each != L'\n' && each != L'\t'; });
        el_winsertstr(el, text.c_str());
        return CC_REFRESH;
    }

    void load_history() {
        HistEvent event;
        if (!history_path_.empty() && access(history_path_.c_str(), R_OK) == 0) {
            ::history(history_.get(), &event, H_CLEAR);
            ::history(history_.get(), &event, H_LOAD, history_path_.c_str());
        }
    }

    std::string                    history_path_;
    std::unique_ptr<EditLine, End> editor_;
    std::unique_ptr<History, End>  history_;
    std::string                    prompt_;
    std::optional<char>            byte_left_; // read, but part of no character yet
    bool                           cleared_ = false;
    bool                           typed_   = false;
};

bool use_utf8() {
    for (const char * name : {"", "C.UTF-8", "en_US.UTF-8"}) {
        if (std::setlocale(LC_CTYPE, name) != nullptr && std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0) {
            return true;
        }
    }
    return false;
}

} // namespace

std::unique_ptr<LineReader> make_line_editor(const std::string & history) {
    const char * terminal = std::getenv("TERM");
    if (terminal == nullptr || *terminal == '\0' || std::strcmp(terminal, "dumb") == 0 || !use_utf8()) {
        return nullptr;
    }
    auto editor = std::make_unique<LineEditor>(history);
    return editor->works() ? std::move(editor) : nullptr;
}

#else

std::unique_ptr<LineReader> make_line_editor(const std::string &) { return nullptr; }

#endif
