#include "prompt.h"

#include "buoy/error.h"
#include "io/printable.h"

#include <fstream>
#include <iostream>
#include <iterator>

namespace {

std::string read_standard_input() {
    std::string text(std::istreambuf_iterator<char>(std::cin), {});
    if (std::cin.bad()) {
        buoy::fail_runtime("standard input could not be read");
    }
    return text;
}

} // namespace

std::string read_text_file(const std::string & path, const char * what) {
    std::ifstream in(path, std::ios::binary);
    if (!in || in.peek() == std::ifstream::traits_type::eof()) {
        buoy::fail(what, " ", buoy::in_quotes(path), " can't be read or is empty");
    }
    return {std::istreambuf_iterator<char>(in), {}};
}

std::string read_prompt(const Options & options) {
    const bool from_stdin = options.prompt_file == "-" || (options.prompt_given && options.prompt == "-");
    if (!from_stdin && options.prompt_file.empty()) {
        return options.prompt;
    }
    std::string text = from_stdin ? read_standard_input() : read_text_file(options.prompt_file, "prompt file");
    // an editor's or echo's last newline is no part of a message
    if (!options.raw && !options.infill && !text.empty() && text.back() == '\n') {
        text.pop_back();
    }
    return text;
}

std::vector<int32_t> make_prompt(const Options & options, const buoy::Vocab & vocab) {
    if (!options.tokens.empty()) {
        return parse_tokens(options.tokens);
    }
    const std::string text = read_prompt(options);
    if (!options.raw && vocab.has_chat_template()) {
        std::vector<buoy::ChatMessage> messages;
        if (!options.system.empty()) {
            messages.push_back({"system", options.system});
        }
        messages.push_back({"user", text});
        return vocab.encode_chat(messages, true);
    }
    if (!options.system.empty()) {
        buoy::fail("-sys needs a chat template, which ", buoy::printable(options.model.path), " does not have");
    }
    return vocab.encode(text, true, false);
}
