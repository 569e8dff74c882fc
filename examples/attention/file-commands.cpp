#include "file-commands.h"

#include "analysis/contents.h"
#include "base/fail.h"
#include "base/printable.h"
#include "base/size.h"
#include "decode/generation-json.h"
#include "io/json-file.h"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <iostream>
#include <memory>

namespace {

using namespace buoy;
using namespace buoy::analysis;

struct Typed {
    std::string path;
    std::string member;
    int64_t     index = -1;
    bool        json  = false;
};

const char * unfinished_text(Unfinished state) {
    return state == Unfinished::in_use ? "an unfinished recording, being written now"
                                       : "an unfinished recording, left by a run that was killed";
}

void print_info(const Typed & typed) {
    if (const Unfinished state = check_unfinished(typed.path); state != Unfinished::no) {
        const uint64_t size = std::filesystem::file_size(typed.path);
        if (typed.json) {
            std::cout << json_line({{"unfinished", true}, {"in_use", state == Unfinished::in_use}, {"bytes", size}});
        } else {
            std::cout << printable(typed.path) << ": " << unfinished_text(state) << ", " << size_text(size) << "\n";
        }
        return;
    }
    const Contents contents = read_contents(typed.path);
    std::cout << (typed.json ? json_line(contents_json(contents)) : contents_text(typed.path, contents));
}

void print_member(const Typed & typed) {
    if (const Unfinished state = check_unfinished(typed.path); state != Unfinished::no) {
        fail(printable(typed.path), ": ", unfinished_text(state), "; its members can't be read");
    }
    const NpzReader   file   = NpzReader::open(typed.path);
    const NpzMember & member = file.get(typed.member);
    if (member.name == "meta.json" || member.name == "meta.json.npy") {
        const nlohmann::ordered_json meta = parse_json(file.read_text(member), printable(typed.path) + ": meta.json");
        std::cout << meta.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
        return;
    }
    write_csv(file, member, typed.index, std::cout);
}

CLI::App * add_command(CLI::App & app, const char * name, const char * help, const std::shared_ptr<Typed> & typed) {
    CLI::App * sub = app.add_subcommand(name, help)->group("Files");
    sub->add_option("recording", typed->path, "what --attn-dump wrote")->required()->type_name("RUN.npz");
    return sub;
}

} // namespace

void add_file_commands(CLI::App & app, std::function<void()> & chosen) {
    const auto typed = std::make_shared<Typed>();
    CLI::App * info  = add_command(app, "info", "what a recording holds", typed);
    info->add_flag("--json", typed->json, "print it as JSON, with all of meta.json");
    info->callback([&chosen, typed] { chosen = [typed] { print_info(*typed); }; });

    CLI::App * cat = add_command(app, "cat", "one member: an array as CSV, or meta.json", typed);
    cat->add_option("member", typed->member, "its name, such as attn/step_0003/layer_05")
        ->required()
        ->type_name("MEMBER");
    cat->add_option(
           "--index", typed->index,
           "of an array with three dimensions, the matrix at this index (a head); without it all of them, each "
           "line led by the index")
        ->type_name("N")
        ->check(CLI::NonNegativeNumber);
    cat->callback([&chosen, typed] { chosen = [typed] { print_member(*typed); }; });
}
