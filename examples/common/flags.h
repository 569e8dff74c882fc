#pragma once

#include "buoy/message.h"
#include "buoy/names.h"
#include "buoy/parse.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

// Everything the parser, --help, docs/cli.md, man pages and completions know about one flag.
struct Flag {
    // where: the flag or the environment variable, for messages
    using Setter = std::function<void(const std::string & where, const std::string & text)>;

    std::string group;
    std::string names;   // "-ngl, --gpu-layers": shown as they are; without dashes: an argument by its place
    std::string value;   // what stands for the value; empty: a switch
    std::string env;     // environment variable, read where the command line does not set the flag
    std::string initial; // the default as text; empty: none to tell
    std::string setting; // what the library calls it
    std::string help;
    Setter      set;              // none: the parser's own, --help
    int         n_values_min = 1; // after one mention of the flag
    int         n_values_max = 1;
    bool        repeatable   = false;
    bool        required     = false;
    bool        is_list      = false; // one value may name several things, separated by commas

    // Those that have names: a shell offers them, and a mistyped one suggests the nearest. A shell offers files where `value` is FILE,
    // RUN.npz or DIR.
    std::vector<std::string> values;

    bool                     is_positional() const { return names[0] != '-'; }
    std::vector<std::string> all_names() const; // one by one
    std::string              long_name() const; // the first one otherwise

    Flag & with_values(const std::vector<std::string> & known) { return values = known, *this; }
    Flag & with_env(const std::string & name) { return env = name, *this; }
    Flag & with_default(const std::string & text) { return initial = text, *this; }
    Flag & with_setting(const std::string & name) { return setting = name, *this; }
    Flag & is_required() { return required = true, *this; }
};

constexpr int32_t whole_max = std::numeric_limits<int32_t>::max();

// The parts of a comma-separated list; throws buoy::Error where one is empty.
std::vector<std::string> split_list(const std::string & where, const std::string & text, const char * separators = ",");

// Arguments as they would be typed in a shell, each behind a space.
std::string shell_words(const std::vector<std::string> & args);

struct Range {
    double low;
    double high;
    bool   above = false; // low itself is not allowed

    bool        holds(double number) const { return (above ? number > low : number >= low) && number <= high; }
    std::string text() const;
};

// The flags of one command line, in the order in which the help shows them.
class FlagTable {
public:
    void group(const std::string & title) { group_ = title; }

    Flag & text(const std::string & names, const std::string & value, std::string & target, const std::string & help);
    Flag & texts(const std::string & names, const std::string & value, std::vector<std::string> & target,
                 int n_values_max, const std::string & help);
    Flag & list(const std::string & names, const std::string & value, std::vector<std::string> & target,
                const std::string & help); // comma-separated
    Flag & toggle(const std::string & names, bool & target, bool to, const std::string & help);
    Flag & call(const std::string & names, const std::string & value, Flag::Setter set, const std::string & help);

    // T is a number or an optional one. What the target holds is the default, unless it is told in other words.
    template <typename T>
    Flag & number(const std::string & names, const std::string & value, T & target, const Range & range,
                  const std::string & help) {
        Flag & flag = add(names, value, help);
        flag.set    = [&target, range](const std::string & where, const std::string & text) {
            target = parse_number<typename Plain<T>::type>(where, text, range);
        };
        if constexpr (std::is_arithmetic_v<T>) {
            flag.initial = buoy::concat(target);
        }
        return flag;
    }

    // Target is T or an optional one.
    template <typename T, size_t N, typename Target>
    Flag & choice(const std::string & names, const buoy::Name<T> (&known)[N], Target & target,
                  const std::string & help) {
        std::string              list, initial;
        std::vector<std::string> values;
        for (const auto & [name, value] : known) {
            list += (list.empty() ? "" : "|") + std::string(name);
            initial = value == target ? name : initial;
            values.emplace_back(name);
        }
        Flag & flag  = add(names, list, help);
        flag.initial = initial;
        flag.values  = values;
        flag.set     = [&target, &known, list](const std::string & where, const std::string & text) {
            for (const auto & [name, value] : known) {
                if (text == name) {
                    target = value;
                    return;
                }
            }
            buoy::fail(where, ": ", buoy::in_quotes(text), " is not one of ", list);
        };
        return flag;
    }

    // What the library calls a setting that another program's flag sets.
    void elsewhere(const std::string & setting, const std::string & flag) { elsewhere_[setting] = flag; }

    // What the arguments ask for.
    enum class Asked { run, help, version };

    // Sets what the arguments and then the environment say; `given` gets the long names of the flags that were set. Throws
    // buoy::Error, with what was probably meant.
    Asked parse(const std::vector<std::string> & args, std::vector<std::string> & given) const;

    // The rows of what every command knows; after all others.
    void add_common();

    const std::deque<Flag> & rows() const { return flags_; }

    std::string help() const;     // 100 columns
    std::string markdown() const; // a table per group

    // A message of the library, which has its settings in backticks, with the flags instead.
    std::string in_flags(const std::string & message) const;

private:
    template <typename T> struct Plain { using type = T; };
    template <typename T> struct Plain<std::optional<T>> { using type = T; };

    Flag & add(const std::string & names, const std::string & value, const std::string & help);

    template <typename T>
    static T parse_number(const std::string & where, const std::string & text, const Range & range) {
        const std::optional<T> number = buoy::parse_number<T>(text);
        if (!number || !range.holds(static_cast<double>(*number))) {
            const char * kind = std::is_integral_v<T> ? "whole number" : "number";
            buoy::fail(where, ": ", buoy::in_quotes(text), " is not a ", kind, " ", range.text());
        }
        return *number;
    }

    std::string                        group_;
    std::deque<Flag>                   flags_; // references to flags stay valid while others are added
    std::map<std::string, std::string> elsewhere_;
};
