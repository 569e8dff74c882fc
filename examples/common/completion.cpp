#include "completion.h"

#include "buoy/bundled.h"
#include "program.h"

#include <algorithm>

namespace {

// What a shell offers where a value is expected.
struct Offer {
    std::vector<std::string> words;
    bool                     files       = false;
    bool                     directories = false; // these alone
    std::string              extension;           // of the files; empty: any
};

Offer offer_of(const Flag & flag) {
    Offer             offer;
    const std::string value    = flag.value.substr(0, flag.value.find("..."));
    const size_t      dot      = value.rfind('.');
    const bool        is_model = flag.long_name() == "--model"; // a bundled one has a name, everywhere
    offer.words                = flag.values;
    offer.directories          = value == "DIR";
    offer.extension            = is_model ? "gguf" : dot != std::string::npos ? value.substr(dot + 1) : "";
    offer.files = is_model || dot != std::string::npos || value == "FILE" || value == "FILES" || value == "INPUT" ||
                  value == "OUTPUT";
    if (is_model) {
        offer.words = {buoy::bundled_diffusion_model, buoy::bundled_autoregressive_model};
    }
    return offer;
}

std::string joined(const std::vector<std::string> & words, const char * separator) {
    std::string out;
    for (const std::string & word : words) {
        out += (out.empty() ? "" : separator) + word;
    }
    return out;
}

std::string replaced(std::string text, const std::string & what, const std::string & by) {
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
        text.replace(at, what.size(), by);
    }
    return text;
}

std::string quoted(const std::string & text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

std::string identifier(const std::string & name) { return "_" + replaced(name, "-", "_"); }

std::vector<std::string> command_names(const Program & program) {
    std::vector<std::string> names;
    for (const Command & command : program.commands()) {
        if (!command.name.empty()) {
            names.push_back(command.name);
        }
    }
    return names;
}

// The flags of a command that help shows.
std::vector<Flag> shown(const Command & command) {
    std::vector<Flag> flags;
    std::copy_if(command.flags.rows().begin(), command.flags.rows().end(), std::back_inserter(flags),
                 [](const Flag & flag) { return !flag.help.empty(); });
    return flags;
}

// What every program with commands knows before one is named.
const std::vector<std::string> own_flags = {"--version", "-h", "--help"};

std::string bash_offer(const Offer & offer, bool is_list) {
    std::string out;
    if (!offer.words.empty()) {
        out += (is_list ? " list=" : " words=") + quoted(joined(offer.words, " "));
    }
    if (offer.directories) {
        out += " files=/";
    } else if (offer.files) {
        out += " files=" + quoted(offer.extension.empty() ? "*" : "*." + offer.extension);
    }
    return out;
}

// The lines of bash's two case statements for one command.
struct BashCases {
    std::string of_words; // what each command offers where no flag wants a value
    std::string of_flags;
    std::string several; // flags that take several values, as patterns
};

void add_bash_cases(BashCases & cases, const Command & command, const std::vector<std::string> & more_words) {
    std::vector<std::string> words = more_words;
    std::string              places;
    for (const Flag & flag : shown(command)) {
        const std::string offered = bash_offer(offer_of(flag), flag.is_list);
        if (flag.is_positional()) {
            places += offered;
            continue;
        }
        std::vector<std::string> patterns;
        for (const std::string & name : flag.all_names()) {
            words.push_back(name);
            patterns.push_back(command.name + ":" + name);
        }
        if (!flag.value.empty()) {
            cases.of_flags += "        " + joined(patterns, " | ") + ") value=yes" + offered + " ;;\n";
        }
        if (flag.n_values_max > 1) {
            cases.several += (cases.several.empty() ? "" : " | ") + joined(patterns, " | ");
        }
    }
    cases.of_words += "        '" + command.name + "') flags=" + quoted(joined(words, " ")) + places + " ;;\n";
}

// The words of zsh's _arguments that say what follows a flag.
std::string zsh_action(const Flag & flag) {
    const Offer       offer = offer_of(flag);
    const std::string words = joined(offer.words, " ");
    const std::string files = offer.directories         ? "_files -/"
                              : offer.extension.empty() ? "_files"
                                                        : "_files -g \"*." + offer.extension + "(-.)\"";
    if (offer.files || offer.directories) {
        return words.empty() ? files : "{compadd - " + words + "; " + files + "}";
    }
    return words.empty() ? " " : flag.is_list ? "_sequence compadd - " + words : "(" + words + ")";
}

std::string zsh_escaped(std::string text) {
    for (const char * special : {"\\", "[", "]", ":"}) {
        text = replaced(text, special, std::string("\\") + special);
    }
    return text;
}

std::string zsh_arguments(const Command & command, const std::string & indent) {
    std::string out = indent + "_arguments -S";
    for (const Flag & flag : shown(command)) {
        const std::string value = zsh_escaped(flag.value) + ":" + zsh_action(flag);
        if (flag.is_positional()) {
            out += " \\\n" + indent + "    " + quoted((flag.n_values_max > 1 ? "*:" : ":") + value);
            continue;
        }
        const std::vector<std::string> names = flag.all_names();
        for (const std::string & name : names) {
            const std::string once = flag.repeatable ? "*" : "(" + joined(names, " ") + ")";
            const std::string many = flag.n_values_max > 1 ? ":*-*:" : ":"; // up to the next flag
            out += " \\\n" + indent + "    " +
                   quoted(once + name + "[" + zsh_escaped(flag.help) + "]" + (flag.value.empty() ? "" : many + value));
        }
    }
    return out + "\n";
}

std::string fish_name(const std::string & name) {
    return name.rfind("--", 0) == 0 ? " -l " + name.substr(2)
           : name.size() == 2       ? " -s " + name.substr(1)
                                    : " -o " + name.substr(1);
}

std::string fish_quoted(const std::string & text) {
    return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

std::string fish_offer(const Offer & offer, bool is_list) {
    std::string arguments = joined(offer.words, " ");
    if (is_list && !arguments.empty()) {
        arguments = "(__fish_append , " + arguments + ")";
    }
    if (offer.directories) {
        arguments += " (__fish_complete_directories)";
    } else if (offer.files) {
        arguments += " (__fish_complete_suffix " + (offer.extension.empty() ? "''" : "." + offer.extension) + ")";
    }
    // fish shows every file, those with the extension first
    return arguments.empty() ? "" : (offer.files ? " -k -a " : " -a ") + fish_quoted(arguments);
}

} // namespace

std::string bash_completion(const Program & program) {
    const std::string function = identifier(program.name());
    const auto        names    = command_names(program);
    BashCases         cases;
    bool              has_unnamed = false;
    for (const Command & command : program.commands()) {
        const bool unnamed = command.name.empty();
        has_unnamed        = has_unnamed || unnamed;
        add_bash_cases(cases, command, {});
    }
    if (!has_unnamed) {
        cases.of_words += "        '') flags=" + quoted(joined(own_flags, " ")) + " ;;\n";
    }
    std::string out = "# made by " + program.name() + " --help-bash\n" + function + "() {\n" +
                      R"(    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local command='' flags='' words='' list='' files='' value='' i
    if [[ $cur == '=' ]]; then # --flag=value comes as three words
        cur=''
    elif [[ $prev == '=' ]]; then
        prev=${COMP_WORDS[COMP_CWORD - 2]}
    fi
)";
    if (!names.empty()) {
        out += "    if ((COMP_CWORD > 1)); then\n        case ${COMP_WORDS[1]} in\n            " +
               joined(names, " | ") + ") command=${COMP_WORDS[1]} ;;\n        esac\n    fi\n";
    }
    if (!cases.several.empty()) {
        out +=
            "    for ((i = COMP_CWORD - 1; i > 0; i--)); do\n        [[ ${COMP_WORDS[i]} == -* ]] && break\n    done\n"
            "    case $command:${COMP_WORDS[i]} in\n        " +
            cases.several + ") prev=${COMP_WORDS[i]} ;;\n    esac\n";
    }
    out += "    case $command:$prev in\n" + cases.of_flags +
           "    esac\n    if [[ $cur == -* || -z $value ]]; then\n        case $command in\n" +
           replaced(cases.of_words, "        '", "            '") + "        esac\n    fi\n";
    if (!names.empty()) {
        out += "    ((COMP_CWORD == 1)) && words+=" + quoted(" " + joined(names, " ")) + "\n";
    }
    return out + R"(    [[ $cur == -* || -z $value && -z $words && -z $files ]] && words+=" $flags"
    local before=''
    if [[ -n $list ]]; then # comma-separated: the last part is completed
        words=$list
        [[ $cur == *,* ]] && before=${cur%,*},
    fi
    local IFS=$'\n'
    COMPREPLY=($(compgen -P "$before" -W "${words// /$'\n'}" -- "${cur#"$before"}"))
    case $files in
        '') ;;
        /) compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -d -- "$cur")) ;;
        '*') compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -f -- "$cur")) ;;
        *) compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -f -X "!$files" -- "$cur") $(compgen -d -- "$cur")) ;;
    esac
}
)" + "complete -F " +
           function + " " + program.name() + "\n";
}

std::string zsh_completion(const Program & program) {
    const auto  names = command_names(program);
    std::string named, unnamed, list;
    for (const Command & command : program.commands()) {
        if (command.name.empty()) {
            unnamed = zsh_arguments(command, "        ");
        } else {
            named += "    " + command.name + ")\n        shift words\n        ((CURRENT--))\n" +
                     zsh_arguments(command, "        ") + "        ;;\n";
            list += "        " + quoted(zsh_escaped(command.name) + ":" + command.help) + "\n";
        }
    }
    std::string out = "#compdef " + program.name() + "\n# made by " + program.name() + " --help-zsh\n";
    if (!list.empty()) {
        out += "local -a commands=(\n" + list + "    )\n";
    }
    std::string first = list.empty() ? "" : "        ((CURRENT == 2)) && _describe -t commands command commands\n";
    if (unnamed.empty()) {
        first += "        [[ $words[CURRENT] == -* ]] && compadd - " + joined(own_flags, " ") + "\n";
    }
    return out + "case $words[2] in\n" + named + "    *)\n" + first + unnamed + "        ;;\nesac\n";
}

std::string fish_completion(const Program & program) {
    const auto        names = command_names(program);
    const std::string begin = "complete -c " + program.name();
    std::string       out   = "# made by " + program.name() + " --help-fish\n" + begin + " -f\n";
    for (const Command & command : program.commands()) {
        std::string condition;
        if (!command.name.empty()) {
            out += begin + " -n __fish_use_subcommand -a " + command.name + " -d " + fish_quoted(command.help) + "\n";
            condition = " -n '__fish_seen_subcommand_from " + command.name + "'";
        } else if (!names.empty()) {
            condition = " -n 'not __fish_seen_subcommand_from " + joined(names, " ") + "'";
        }
        for (const Flag & flag : shown(command)) {
            std::string row = begin + condition;
            if (!flag.is_positional()) {
                for (const std::string & name : flag.all_names()) {
                    row += fish_name(name);
                }
                row += (flag.value.empty() ? "" : " -x") + std::string(" -d ") + fish_quoted(flag.help);
            }
            const std::string offered = fish_offer(offer_of(flag), flag.is_list);
            out += flag.is_positional() && offered.empty() ? "" : row + offered + "\n";
        }
    }
    return out;
}
