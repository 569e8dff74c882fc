#include "flags.h"

#include <algorithm>
#include <iomanip>

namespace {

constexpr char no_break = '\1'; // a space at which no line ends

std::string help_text(const Flag & flag) {
    return flag.help + (flag.initial.empty() ? "" : " (default:" + std::string(1, no_break) + flag.initial + ")") +
           (flag.env.empty() ? "" : " [env" + std::string(1, no_break) + flag.env + "]");
}

std::string wrapped(const std::string & text, size_t column, size_t width) {
    std::string out;
    size_t      at = column;
    for (const std::string & word : buoy::split(text, " ")) {
        if (at + word.size() > width && at > column) {
            out.back() = '\n';
            out += std::string(column, ' ');
            at = column;
        }
        out += word + " ";
        at += word.size() + 1;
    }
    out.back() = '\n';
    std::replace(out.begin(), out.end(), no_break, ' ');
    return out;
}

std::string escaped_for_table(const std::string & text) {
    std::string out;
    for (char c : text) {
        out += (c == '|' || c == '\\' ? "\\" : "") + std::string(1, c);
    }
    return out;
}

} // namespace

std::vector<std::string> Flag::all_names() const {
    std::vector<std::string> all = buoy::split(names);
    for (std::string & name : all) {
        name.erase(0, name.find_first_not_of(' '));
    }
    return all;
}

std::string Flag::long_name() const {
    const std::vector<std::string> all = all_names();
    const auto                     found =
        std::find_if(all.begin(), all.end(), [](const std::string & n) { return n.rfind("--", 0) == 0; });
    return found != all.end() ? *found : all[0];
}

std::vector<std::string> split_list(const std::string & where, const std::string & text, const char * separators) {
    std::vector<std::string> parts = buoy::split(text, separators);
    if (std::find(parts.begin(), parts.end(), "") != parts.end()) {
        buoy::fail(where, ": ", buoy::in_quotes(text), " has an empty item");
    }
    return parts;
}

std::string shell_words(const std::vector<std::string> & args) {
    std::string out;
    for (const std::string & arg : args) {
        if (!arg.empty() && arg.find_first_of(" \t\n\"'$`\\!&|;<>()*?[]{}#~^") == std::string::npos) {
            out += " " + arg;
        } else if (arg.find_first_of("\"$`\\!") == std::string::npos) {
            out += " \"" + arg + "\"";
        } else {
            out += " '";
            for (const char c : arg) {
                out += c == '\'' ? "'\\''" : std::string(1, c);
            }
            out += "'";
        }
    }
    return out;
}

std::string Range::text() const {
    if (high >= whole_max) {
        return buoy::concat(above ? "above " : "of at least ", low);
    }
    return buoy::concat(std::setprecision(12), above ? "above " : "from ", low, above ? " and up to " : " to ", high);
}

Flag & FlagTable::add(const std::string & names, const std::string & value, const std::string & help) {
    Flag & flag = flags_.emplace_back();
    flag.group  = group_;
    flag.names  = names;
    flag.value  = value;
    flag.help   = help;
    return flag;
}

Flag & FlagTable::text(const std::string & names, const std::string & value, std::string & target,
                       const std::string & help) {
    Flag & flag = add(names, value, help);
    flag.set    = [&target](const std::string &, const std::string & given) { target = given; };
    return flag;
}

Flag & FlagTable::texts(const std::string & names, const std::string & value, std::vector<std::string> & target,
                        int n_values_max, const std::string & help) {
    Flag & flag       = add(names, value, help);
    flag.n_values_max = n_values_max;
    flag.repeatable   = true;
    flag.set          = [&target](const std::string &, const std::string & given) { target.push_back(given); };
    return flag;
}

Flag & FlagTable::list(const std::string & names, const std::string & value, std::vector<std::string> & target,
                       const std::string & help) {
    Flag & flag = add(names, value, help);
    flag.set = [&target](const std::string & where, const std::string & given) { target = split_list(where, given); };
    flag.is_list = true;
    return flag;
}

Flag & FlagTable::toggle(const std::string & names, bool & target, bool to, const std::string & help) {
    Flag & flag = add(names, "", help);
    flag.set    = [&target, to](const std::string & where, const std::string & given) {
        const bool on  = given == "1" || given == "true" || given == "on";
        const bool off = given == "0" || given == "false" || given == "off";
        if (!on && !off) {
            buoy::fail(where, ": ", buoy::in_quotes(given), " is not 1 or 0");
        }
        target = on ? to : !to;
    };
    return flag;
}

Flag & FlagTable::call(const std::string & names, const std::string & value, Flag::Setter set,
                       const std::string & help) {
    Flag & flag = add(names, value, help);
    flag.set    = std::move(set);
    return flag;
}

void FlagTable::add_common() {
    add("--version", "", "print the version and exit");
    add("-h, --help", "", "print this and exit");
}

std::string FlagTable::in_flags(const std::string & message) const {
    std::string out;
    for (size_t at = 0; at < message.size();) {
        const size_t open  = std::min(message.find('`', at), message.size());
        const size_t close = message.find('`', open + 1);
        out += message.substr(at, open - at);
        if (open == message.size() || close == std::string::npos) {
            return out + message.substr(open);
        }
        const std::string name  = message.substr(open + 1, close - open - 1);
        const auto        known = elsewhere_.find(name);
        const auto flag = std::find_if(flags_.begin(), flags_.end(), [&](const Flag & f) { return f.setting == name; });
        out += flag != flags_.end() ? flag->all_names()[0] : known != elsewhere_.end() ? known->second : name;
        at = close + 1;
    }
    return out;
}

std::string FlagTable::help() const {
    constexpr size_t column = 38;
    std::string      out;
    std::string      title;
    for (const Flag & flag : flags_) {
        if (flag.help.empty()) {
            continue; // known, not shown
        }
        if (flag.group != title) {
            title = flag.group;
            out += "\n" + title + "\n";
        }
        std::string head = "  " + flag.names + (flag.value.empty() ? "" : " " + flag.value);
        head += head.size() + 2 > column ? "\n" + std::string(column, ' ') : std::string(column - head.size(), ' ');
        out += head + wrapped(help_text(flag), column, 100);
    }
    return out;
}

std::string FlagTable::markdown() const {
    std::string out;
    std::string title;
    for (const Flag & flag : flags_) {
        if (flag.help.empty()) {
            continue;
        }
        if (flag.group != title) {
            title = flag.group;
            out += "\n### " + title + "\n\n| flag | meaning | default | environment |\n|---|---|---|---|\n";
        }
        const std::string env = flag.env.empty() ? "" : "`" + flag.env + "`";
        out += "| `" + escaped_for_table(flag.names + (flag.value.empty() ? "" : " " + flag.value)) + "` | " +
               escaped_for_table(flag.help) + " | " + escaped_for_table(flag.initial) + " | " + env + " |\n";
    }
    return out;
}
