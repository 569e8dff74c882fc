#include "mutate.h"

#include "base/file-name.h"
#include "support/gguf-bytes.h"

#include <algorithm>
#include <array>

namespace buoy::fuzz {

namespace {

using test::le;

constexpr const char * part_mark = "=== ";

void overwrite(std::string & bytes, size_t at, const std::string & with) {
    bytes.replace(at, std::min(with.size(), bytes.size() - at), with);
}

// Cut, taken out, doubled or copied over.
void move_bytes(std::string & bytes, Random & random) {
    const size_t at   = below(random, bytes.size());
    const size_t size = std::min<size_t>(bytes.size() - at, 1 + below(random, 32));
    switch (below(random, 4)) {
        case 0: bytes.resize(at); break;
        case 1: bytes.erase(at, size); break;
        case 2: bytes.insert(below(random, bytes.size()), bytes.substr(at, size)); break;
        default: bytes.replace(below(random, bytes.size()), size, bytes.substr(at, size)); break;
    }
}

} // namespace

uint64_t edge_number(Random & random) {
    static constexpr std::array<uint64_t, 16> edges{
        0,          1,          2,          8,          32,         255,        256,        65535,
        0x7fffffff, 0x80000000, 0xffffffff, 1ull << 32, 1ull << 40, 1ull << 62, 1ull << 63, ~0ull};
    return edges[below(random, edges.size())] + below(random, 5) - 2;
}

void mutate_bytes(std::string & input, Random & random) {
    if (input.empty()) {
        input = "x";
    }
    const size_t   at   = below(random, input.size());
    const uint64_t edge = edge_number(random);
    switch (below(random, 8)) {
        case 0: input[at] = static_cast<char>(input[at] ^ (1 << below(random, 8))); break;
        case 1: input[at] = static_cast<char>(random()); break;
        case 2: overwrite(input, at, le(static_cast<uint16_t>(edge))); break;
        case 3: overwrite(input, at, le(static_cast<uint32_t>(edge))); break;
        case 4: overwrite(input, at, le(edge)); break;
        default: move_bytes(input, random);
    }
}

void mutate_text(std::string & input, Random & random, const std::vector<std::string> & words) {
    const std::string & word = words[below(random, words.size())];
    const size_t        at   = below(random, input.size() + 1);
    switch (below(random, 6)) {
        case 0: input.insert(at, word); break;
        case 1: input.replace(at, std::min<size_t>(input.size() - at, 1 + below(random, 8)), word); break;
        case 2: // many times
            for (uint64_t n = below(random, 300); n > 0 && input.size() < (1u << 16); n--) {
                input.insert(at, word);
            }
            break;
        case 3: mutate_bytes(input, random); break;
        default:
            if (!input.empty()) {
                move_bytes(input, random);
            }
    }
}

void mutate_json(std::string & input, Random & random) {
    static const std::vector<std::string> words = {"{",
                                                   "}",
                                                   "[",
                                                   "]",
                                                   "\"",
                                                   ":",
                                                   ",",
                                                   "null",
                                                   "true",
                                                   "false",
                                                   "0",
                                                   "-1",
                                                   "1e9",
                                                   "1e400",
                                                   "-0.0",
                                                   "2147483648",
                                                   "18446744073709551616",
                                                   "\"\"",
                                                   "\\u0000",
                                                   "\\ud800",
                                                   "[]",
                                                   "{}",
                                                   "\"a\":",
                                                   "\xff",
                                                   "\x1b[2J",
                                                   "../",
                                                   "\\u202e",
                                                   "[[",
                                                   "]]"};
    mutate_text(input, random, words);
}

std::string bundled(const Parts & parts) {
    std::string out;
    for (const auto & [name, bytes] : parts) {
        out += part_mark + name + "\n" + bytes + "\n";
    }
    return out;
}

Parts unbundled(const std::string & input) {
    const std::string mark = part_mark;
    Parts             parts;
    size_t            at = input.starts_with(mark) ? 0 : input.find("\n" + mark);
    while (at < input.size()) {
        at += input[at] == '\n' ? 1 : 0;
        const size_t line = std::min(input.find('\n', at), input.size());
        const size_t next = std::min(input.find("\n" + mark, line), input.size());
        std::string  name = input.substr(at + mark.size(), line - at - mark.size());
        std::string  data = input.substr(std::min(line + 1, next), next - std::min(line + 1, next));
        if (next == input.size() && data.ends_with('\n')) {
            data.pop_back();
        }
        parts.emplace_back(std::move(name), std::move(data));
        at = next;
    }
    return parts;
}

} // namespace buoy::fuzz
