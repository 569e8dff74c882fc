#include "prompt.h"

#include "input-text.h"

#include <cctype>
#include <fstream>
#include <iostream>

namespace {

unsigned char byte(char c) { return static_cast<unsigned char>(c); }

} // namespace

std::string read_text_file(const std::string & path, const char * what) {
    std::ifstream in(path, std::ios::binary);
    if (!in || in.peek() == std::ifstream::traits_type::eof()) {
        buoy::fail(what, " ", buoy::in_quotes(path), " cannot be read or is empty");
    }
    return read_to_end(in, buoy::concat(what, " ", buoy::in_quotes(path)));
}

std::string read_prompt(const CliParams & params) {
    if (!params.prompt_from_stdin() && params.prompt_file.empty()) {
        return params.prompt;
    }
    std::string text = params.prompt_from_stdin() ? read_to_end(std::cin, "standard input")
                                                  : read_text_file(params.prompt_file, "prompt file");
    // an editor's or echo's last newline is no part of a message
    if (!params.raw && !params.infill && !text.empty() && text.back() == '\n') {
        text.pop_back();
    }
    return text;
}

std::string unescaped(const std::string & text) {
    static const std::string letters = "nrt'\"\\", meanings = "\n\r\t'\"\\";
    std::string              out;
    for (size_t at = 0; at < text.size(); at++) {
        const char   next   = at + 1 < text.size() ? text[at + 1] : '\0';
        const size_t letter = text[at] == '\\' ? letters.find(next) : std::string::npos;
        if (letter != std::string::npos) {
            out += meanings[letter];
            at++;
        } else if (text[at] == '\\' && next == 'x' && at + 3 < text.size() && std::isxdigit(byte(text[at + 2])) != 0 &&
                   std::isxdigit(byte(text[at + 3])) != 0) {
            out += static_cast<char>(std::stoi(text.substr(at + 2, 2), nullptr, 16));
            at += 3;
        } else {
            out += text[at];
        }
    }
    return out;
}

Prompt make_prompt(const CliParams & params, const buoy::Vocab & vocab) {
    if (params.replay) {
        return {params.replay->prompt, {}};
    }
    if (!params.tokens.empty()) {
        return {parse_tokens("--tokens", params.tokens), {}};
    }
    const std::string text = read_prompt(params);
    if (!params.raw && vocab.has_chat_template()) {
        std::vector<buoy::ChatMessage> messages;
        if (!params.system.empty()) {
            messages.push_back({"system", params.system});
        }
        messages.push_back({"user", text});
        return {vocab.encode_chat(messages, true), messages};
    }
    if (!params.system.empty()) {
        buoy::fail("-sys needs a chat template, and ", buoy::printable(params.model_path), " has none");
    }
    std::vector<int32_t> tokens = vocab.encode(text, true, params.parses_special());
    if (tokens.size() > 1 && tokens[0] == vocab.bos() && tokens[1] == tokens[0]) {
        tokens.erase(tokens.begin()); // a template of one's own may begin with it
    }
    return {tokens, {}};
}
