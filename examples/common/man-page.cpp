#include "man-page.h"

#include "buoy/version.h"
#include "program.h"

#include <algorithm>
#include <set>

namespace {

bool starts_with(const std::string & text, const char * with) { return text.rfind(with, 0) == 0; }

std::string upper(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    return text;
}

// Text as roff shows it. In code, quotes and dashes are what one types.
std::string escaped(const std::string & text, bool is_code) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '\\': out += "\\e"; break;
            case '-': out += is_code ? "\\-" : "-"; break;
            case '\'': out += is_code ? "\\(aq" : "'"; break;
            case '`': out += "\\(ga"; break;
            case '^': out += "\\(ha"; break;
            case '~': out += "\\(ti"; break;
            default: out += c;
        }
    }
    return out;
}

std::string bold(const std::string & code) { return "\\fB" + escaped(code, true) + "\\fR"; }

// A help line: a flag in it is not broken at its dashes.
std::string plain(const std::string & text) {
    std::string out;
    for (const std::string & word : buoy::split(text, " ")) {
        out += (out.empty() ? "" : " ") + escaped(word, word.find_first_of('-') <= 1);
    }
    return out;
}

// A line of roff text: a dot or a quote at its beginning would be a request.
std::string line(const std::string & roff) {
    return (!roff.empty() && (roff[0] == '.' || roff[0] == '\'') ? "\\&" : "") + roff + "\n";
}

// Markdown within a line: `code`, **bold**, [text](link) and escapes of tables.
std::string inline_text(const std::string & text) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
        const auto end_of = [&](const char * mark, size_t from) { return text.find(mark, from); };
        if (const size_t end = end_of("`", at + 1); text[at] == '`' && end != std::string::npos) {
            out += bold(text.substr(at + 1, end - at - 1));
            at = end + 1;
        } else if (const size_t stars = end_of("**", at + 2);
                   text.compare(at, 2, "**") == 0 && stars != std::string::npos) {
            out += "\\fB" + escaped(text.substr(at + 2, stars - at - 2), false) + "\\fR";
            at = stars + 2;
        } else if (const size_t link = end_of("](", at);
                   text[at] == '[' && link != std::string::npos && text.find(')', link) != std::string::npos) {
            out += inline_text(text.substr(at + 1, link - at - 1));
            at = text.find(')', link) + 1;
        } else if (text.compare(at, 2, "\\|") == 0) {
            out += "|";
            at += 2;
        } else {
            out += escaped(text.substr(at, 1), false);
            at++;
        }
    }
    return out;
}

// A row of a table becomes an entry: the first cell, and behind it the others.
std::string table_row(const std::string & row) {
    std::vector<std::string> cells(1);
    for (size_t at = 1; at < row.size(); at++) {
        if (row[at] == '|' && row[at - 1] != '\\') {
            cells.emplace_back();
        } else {
            cells.back() += row[at];
        }
    }
    std::string rest;
    for (size_t i = 1; i < cells.size(); i++) {
        const size_t first = cells[i].find_first_not_of(' ');
        if (first != std::string::npos) {
            rest += (rest.empty() ? "" : "; ") + cells[i].substr(first, cells[i].find_last_not_of(' ') + 1 - first);
        }
    }
    return ".TP\n" + line(inline_text(cells[0].substr(cells[0].find_first_not_of(' ')))) + line(inline_text(rest));
}

// What Program's texts use of Markdown: paragraphs, headings, fenced code, lists and tables.
std::string from_markdown(const std::string & markdown) {
    const std::vector<std::string> lines = buoy::split(markdown, "\n");
    std::string                    out;
    bool                           is_code = false;
    for (size_t i = 0; i < lines.size(); i++) {
        const std::string & text = lines[i];
        if (starts_with(text, "```")) {
            out += is_code ? ".EE\n.RE\n" : ".PP\n.RS 4\n.EX\n";
            is_code = !is_code;
        } else if (is_code) {
            out += line(escaped(text, true));
        } else if (starts_with(text, "#")) {
            const std::string title = text.substr(text.find_first_not_of("# "));
            out += starts_with(text, "## ") ? ".SH " + upper(title) + "\n" : ".SS " + title + "\n";
        } else if (starts_with(text, "|")) {
            const bool is_head = i + 1 < lines.size() && starts_with(lines[i + 1], "|---");
            out += is_head || starts_with(text, "|---") ? "" : table_row(text);
        } else if (starts_with(text, "- ")) {
            out += ".IP \\(bu 2\n" + line(inline_text(text.substr(2)));
        } else if (!text.empty()) {
            const bool goes_on = i > 0 && !lines[i - 1].empty() && lines[i - 1][0] != '|' && lines[i - 1][0] != '#';
            out += (goes_on || out.empty() ? "" : ".PP\n") + line(inline_text(text));
        }
    }
    return out;
}

std::string entry(const Flag & flag) {
    std::string head;
    for (const std::string & name : flag.is_positional() ? std::vector<std::string>() : flag.all_names()) {
        head += (head.empty() ? "" : ", ") + bold(name);
    }
    if (!flag.value.empty()) {
        head += (head.empty() ? "" : " ") + ("\\fI" + escaped(flag.value, true) + "\\fR");
    }
    const std::string initial = flag.initial.empty() ? "" : ".br\n" + line("Default: " + plain(flag.initial));
    const std::string env     = flag.env.empty() ? "" : ".br\n" + line("Environment: " + bold(flag.env));
    return ".TP\n" + line(head) + line(plain(flag.help)) + initial + env;
}

std::string entries(const FlagTable & flags) {
    std::string out;
    std::string title;
    for (const Flag & flag : flags.rows()) {
        if (flag.help.empty()) {
            continue;
        }
        if (flag.group != title) {
            title = flag.group;
            out += ".SS " + escaped(title, false) + "\n";
        }
        out += entry(flag);
    }
    return out;
}

std::string synopsis(const Program & program) {
    std::string usage = program.usage;
    if (usage.empty()) {
        usage = program.name() + " COMMAND [flags]\n";
    }
    std::string out = ".nf\n";
    for (const std::string & text : buoy::split(usage, "\n")) {
        if (const size_t first = text.find_first_not_of(' '); first != std::string::npos) {
            const std::string words = text.substr(first);
            const size_t      end   = std::min(words.find(' '), words.size());
            out += bold(words.substr(0, end)) + escaped(words.substr(end), true) + "\n";
        }
    }
    return out + ".fi\n";
}

std::string environment(const Program & program) {
    std::set<std::string> seen;
    std::string           out;
    for (const Command & command : program.commands()) {
        for (const Flag & flag : command.flags.rows()) {
            if (!flag.env.empty() && seen.insert(flag.env).second) {
                out += ".TP\n" + bold(flag.env) + "\nSets " + bold(flag.long_name()) +
                       " where the command line does not.\n";
            }
        }
    }
    return out + ".TP\n" + bold("BUOY_MODELS") + "\nThe directory that has the bundled models.\n";
}

} // namespace

std::string man_page(const Program & program) {
    const std::string version = buoy::version();
    std::string       about   = program.about(); // "Runs models." → "runs models"
    about[0]                  = about[0] >= 'A' && about[0] <= 'Z' ? static_cast<char>(about[0] - 'A' + 'a') : about[0];
    about.erase(about.find_last_not_of('.') + 1);

    std::string out = "'\\\" t\n.\\\" made by " + program.name() + " --help-man\n.TH " + upper(program.name()) +
                      " 1 \"\" \"buoy " + version.substr(0, version.find(' ')) + "\" \"User Commands\"\n.nh\n.ad l\n" +
                      ".SH NAME\n" + program.name() + " \\- " + escaped(about, false) + "\n.SH SYNOPSIS\n" +
                      synopsis(program) + ".SH DESCRIPTION\n" +
                      from_markdown(program.introduction.empty() ? program.about() : program.introduction);
    std::string commands;
    for (const Command & command : program.commands()) {
        if (command.name.empty()) {
            out += ".SH OPTIONS\n" + entries(command.flags);
        } else {
            commands += ".SH " + upper(program.name() + " " + command.name) + "\n" + line(plain(command.help)) +
                        entries(command.flags);
        }
    }
    return out + commands + from_markdown(program.chapters) + ".SH ENVIRONMENT\n" + environment(program) +
           ".SH EXIT STATUS\n.TP\n0\nThe program did what it was asked to.\n.TP\n1\nThe request was wrong: a flag, a "
           "file or the model.\n.TP\n2\nIt failed while running.\n.TP\n130\nCtrl-C or SIGTERM ended it.\n";
}
