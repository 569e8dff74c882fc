// Arguments to flags: exact names only, so that a mistyped one is never taken for another.

#include "flags.h"
#include "llama-flags.h"
#include "suggest.h"

#include <algorithm>
#include <cstdlib>

namespace {

constexpr const char * more_help = " (--help lists the flags)";

const char * env_value(const Flag & flag) {
    const char * value = flag.env.empty() ? nullptr : std::getenv(flag.env.c_str());
    return value != nullptr && *value != '\0' ? value : nullptr;
}

bool looks_like_flag(const std::string & arg) { return arg.size() > 1 && arg[0] == '-'; }

// Values that the library takes are checked by it; this adds what it can't know.
void apply(const Flag & flag, const std::string & where, const std::string & text) {
    try {
        flag.set(where, text);
    } catch (const buoy::Error & error) {
        buoy::fail(error.what(), did_you_mean(text, flag.values));
    }
}

// "-n5" where -n is a flag and 5 a number.
std::string separated(const std::string & name, const std::vector<std::string> & known) {
    const size_t digits = name.find_first_of("0123456789");
    const bool   number = digits != std::string::npos && buoy::parse_number<double>(name.substr(digits));
    const bool   flag   = std::find(known.begin(), known.end(), name.substr(0, digits)) != known.end();
    return number && flag ? name.substr(0, digits) + " " + name.substr(digits) : "";
}

std::string needs_text(const Flag & flag) {
    if (!flag.is_positional()) {
        return flag.all_names()[0] + " " + flag.value;
    }
    return flag.n_values_min > 1 ? buoy::concat(flag.n_values_min, " ", flag.names) : flag.value;
}

} // namespace

// One command line on its way through a table.
class FlagParser {
public:
    FlagParser(const std::deque<Flag> & flags, const std::vector<std::string> & args)
        : flags_(flags), args_(args), counts_(flags.size()) {
        for (const Flag & flag : flags_) {
            for (const std::string & name : flag.all_names()) {
                if (looks_like_flag(name)) {
                    known_.push_back(name);
                }
            }
        }
    }

    FlagTable::Asked run() {
        using Asked      = FlagTable::Asked;
        bool only_values = false; // after --
        for (at_ = 0; at_ < args_.size();) {
            const std::string & arg = args_[at_++];
            if (only_values || !looks_like_flag(arg)) {
                take_positional(arg);
            } else if (arg == "--") {
                only_values = true;
            } else if (arg == "-h" || arg == "--help") {
                return Asked::help;
            } else if (arg == "--version") {
                return Asked::version;
            } else {
                take_flag(arg);
            }
        }
        return Asked::run;
    }

    void read_environment() {
        for (size_t i = 0; i < flags_.size(); i++) {
            const char * value = env_value(flags_[i]);
            if (value != nullptr && counts_[i] == 0) {
                apply(flags_[i], "environment variable " + flags_[i].env, value);
                counts_[i] = 1;
            }
        }
    }

    void check_required() const {
        std::string missing;
        for (size_t i = 0; i < flags_.size(); i++) {
            if (flags_[i].required && counts_[i] < flags_[i].n_values_min) {
                missing += (missing.empty() ? "" : ", ") + needs_text(flags_[i]);
            }
        }
        if (!missing.empty()) {
            buoy::fail("missing: ", missing, more_help);
        }
    }

    bool is_given(size_t flag) const { return counts_[flag] > 0; }

private:
    void take_positional(const std::string & arg) {
        for (size_t i = 0; i < flags_.size(); i++) {
            if (flags_[i].is_positional() && counts_[i] < flags_[i].n_values_max) {
                apply(flags_[i], flags_[i].names, arg);
                counts_[i]++;
                return;
            }
        }
        const bool prompts = find("--prompt") != flags_.size() && arg.find(".gguf") == std::string::npos;
        const bool models  = find("--model") != flags_.size();
        buoy::fail("unexpected argument ", buoy::in_quotes(arg),
                   prompts  ? "; pass a prompt with -p, in quotes if it has spaces"
                   : models ? "; pass a model with -m"
                            : "",
                   more_help);
    }

    void take_flag(const std::string & arg) {
        const size_t      equals = std::min(arg.find('='), arg.size());
        const std::string name   = arg.substr(0, equals);
        const size_t      found  = find(name);
        if (found == flags_.size()) {
            fail_unknown(name);
        }
        const Flag & flag = flags_[found];
        if (equals < arg.size()) {
            apply(flag, name, arg.substr(equals + 1));
        } else if (flag.value.empty()) {
            apply(flag, name, "1");
        } else {
            take_values(flag, name);
        }
        counts_[found]++;
    }

    void take_values(const Flag & flag, const std::string & name) {
        const bool missing = at_ == args_.size();
        if (missing || (args_[at_].rfind("--", 0) == 0 && find(args_[at_]) != flags_.size())) {
            const std::string next = missing ? "" : args_[at_];
            buoy::fail(name, " needs a value (", flag.value, ")",
                       missing ? "" : ", but " + next + " follows; if that is the value, write " + name + "=" + next);
        }
        apply(flag, name, args_[at_++]);
        for (int n = 1; n < flag.n_values_max && at_ < args_.size() && !looks_like_flag(args_[at_]); n++) {
            apply(flag, name, args_[at_++]);
        }
    }

    size_t find(const std::string & name) const {
        const auto found = std::find_if(flags_.begin(), flags_.end(), [&](const Flag & flag) {
            const std::vector<std::string> names = flag.all_names();
            return flag.set && !flag.is_positional() && std::find(names.begin(), names.end(), name) != names.end();
        });
        return static_cast<size_t>(found - flags_.begin());
    }

    [[noreturn]] void fail_unknown(const std::string & name) const {
        const std::string shown  = buoy::printable(name);
        const std::string spaced = separated(name, known_);
        if (!spaced.empty()) {
            buoy::fail("unknown flag ", shown, "; did you mean ", spaced, "?");
        }
        const auto        has    = [this](const std::string & flag) { return find(flag) != flags_.size(); };
        const std::string advice = llama_flag_advice(name, has);
        if (!advice.empty()) {
            buoy::fail(shown, " is a llama.cpp flag that this program does not have: ", advice);
        }
        const std::string near = did_you_mean(name, known_);
        buoy::fail("unknown flag ", shown, near.empty() ? more_help : near);
    }

    const std::deque<Flag> &         flags_;
    const std::vector<std::string> & args_;
    size_t                           at_ = 0; // of the next argument
    std::vector<int>                 counts_; // mentions of each flag, or values by place
    std::vector<std::string>         known_;
};

FlagTable::Asked FlagTable::parse(const std::vector<std::string> & args, std::vector<std::string> & given) const {
    FlagParser  parser(flags_, args);
    const Asked asked = parser.run();
    if (asked != Asked::run) {
        return asked;
    }
    parser.read_environment();
    parser.check_required();
    for (size_t i = 0; i < flags_.size(); i++) {
        if (parser.is_given(i)) {
            given.push_back(flags_[i].long_name());
        }
    }
    return Asked::run;
}
