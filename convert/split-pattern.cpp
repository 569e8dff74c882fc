#include "split-pattern.h"

#include "buoy/message.h"
#include "buoy/utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <limits>
#include <optional>

namespace buoy {

namespace {

using Test = std::function<bool(uint32_t)>;
using Next = std::function<bool(size_t)>;

constexpr size_t MANY = std::numeric_limits<size_t>::max();

bool is_space(uint32_t c) {
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

// Lu, Ll, … belong to L, as to themselves.
bool has_category(uint32_t c, const std::string & name) {
    return std::string(utf8proc_category_string(static_cast<utf8proc_int32_t>(c))).compare(0, name.size(), name) == 0;
}

uint32_t folded(uint32_t c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; }

} // namespace

// One of: a character, alternatives of sequences, a repeat of the one child, a lookahead of it.
struct SplitPattern::Node {
    enum class Kind { character, group, repeat, lookahead };

    Kind                           kind = Kind::group;
    Test                           test;
    std::vector<std::vector<Node>> alternatives;
    size_t                         min        = 1;
    size_t                         max        = 1;
    bool                           possessive = false;
    bool                           negated    = false;
};

namespace {

using Node = SplitPattern::Node;

class Parser {
public:
    explicit Parser(const std::string & pattern) : text_(pattern), pattern_(decode_utf8(pattern)) {}

    Node parse() {
        Node root = alternatives(false);
        if (at_ < pattern_.size()) {
            refuse();
        }
        return root;
    }

private:
    [[noreturn]] void refuse() const {
        fail("splitting pattern ", in_quotes(text_, 300), ": not understood at character ", at_);
    }
    bool     more() const { return at_ < pattern_.size(); }
    uint32_t peek(size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : 0; }
    uint32_t take() {
        if (!more()) {
            refuse();
        }
        return pattern_[at_++];
    }
    bool accept(const char * part) {
        size_t n = 0;
        for (; part[n] != 0; ++n) {
            if (peek(n) != static_cast<uint32_t>(part[n])) {
                return false;
            }
        }
        at_ += n;
        return true;
    }

    Node alternatives(bool any_case) {
        Node node;
        node.alternatives.emplace_back();
        while (more() && peek() != ')') {
            if (accept("|")) {
                node.alternatives.emplace_back();
            } else {
                node.alternatives.back().push_back(repeated(atom(any_case)));
            }
        }
        return node;
    }

    Node atom(bool any_case) {
        if (accept("(")) {
            const bool not_ahead = accept("?!");
            const bool ahead     = not_ahead || accept("?=");
            const bool fold      = accept("?i:") || any_case;
            accept("?:");
            Node node = alternatives(fold);
            if (!accept(")")) {
                refuse();
            }
            if (ahead) {
                node.kind    = Node::Kind::lookahead;
                node.negated = not_ahead;
            }
            return node;
        }
        Node node;
        node.kind = Node::Kind::character;
        if (accept("[")) {
            node.test = char_class();
        } else if (peek() == '\\') {
            node.test = escape();
        } else {
            const uint32_t c = take();
            node.test        = any_case ? Test([c](uint32_t x) { return folded(x) == folded(c); })
                                        : Test([c](uint32_t x) { return x == c; });
        }
        return node;
    }

    Node repeated(Node node) {
        size_t min = 1;
        size_t max = 1;
        if (accept("?")) {
            min = 0;
        } else if (accept("*")) {
            min = 0;
            max = MANY;
        } else if (accept("+")) {
            max = MANY;
        } else if (accept("{")) {
            min = number();
            max = min;
            if (accept(",")) {
                max = peek() == '}' ? MANY : number();
            }
            if (!accept("}")) {
                refuse();
            }
        } else {
            return node;
        }
        Node repeat;
        repeat.kind       = Node::Kind::repeat;
        repeat.min        = min;
        repeat.max        = max;
        repeat.possessive = accept("+");
        repeat.alternatives.push_back({std::move(node)});
        return repeat;
    }

    size_t number() {
        size_t value = 0;
        if (peek() < '0' || peek() > '9') {
            refuse();
        }
        while (peek() >= '0' && peek() <= '9' && value < 10000) {
            value = value * 10 + (take() - '0');
        }
        return value;
    }

    // A single character's escape, or none where it stands for a class.
    Test escape(std::optional<uint32_t> * literal = nullptr) {
        take();
        const uint32_t c = take();
        switch (c) {
            case 's': return is_space;
            case 'S': return [](uint32_t x) { return !is_space(x); };
            case 'p':
            case 'P': {
                if (!accept("{")) {
                    refuse();
                }
                std::string name(1, static_cast<char>(take()));
                if (!accept("}")) {
                    name += static_cast<char>(take());
                    if (!accept("}")) {
                        refuse();
                    }
                }
                return [name, c](uint32_t x) { return has_category(x, name) == (c == 'p'); };
            }
            default: break;
        }
        const uint32_t value = c == 'r' ? '\r' : c == 'n' ? '\n' : c == 't' ? '\t' : c;
        if (literal != nullptr) {
            *literal = value;
        }
        return [value](uint32_t x) { return x == value; };
    }

    Test char_class() {
        const bool        negated = accept("^");
        std::vector<Test> tests;
        while (peek() != ']') {
            std::optional<uint32_t> first;
            Test                    test;
            if (peek() == '\\') {
                test = escape(&first);
            } else {
                first = take();
                test  = [c = *first](uint32_t x) { return x == c; };
            }
            if (first && peek() == '-' && peek(1) != ']') {
                take();
                std::optional<uint32_t> last;
                if (peek() == '\\') {
                    escape(&last);
                } else {
                    last = take();
                }
                if (!last) {
                    refuse();
                }
                test = [from = *first, to = *last](uint32_t x) { return x >= from && x <= to; };
            }
            tests.push_back(std::move(test));
        }
        take();
        return [tests, negated](uint32_t x) {
            return std::any_of(tests.begin(), tests.end(), [x](const Test & test) { return test(x); }) != negated;
        };
    }

    const std::string & text_;
    CodePoints          pattern_;
    size_t              at_ = 0;
};

bool match(const Node & node, const CodePoints & text, size_t at, const Next & next);

bool match_sequence(const std::vector<Node> & nodes, size_t i, const CodePoints & text, size_t at, const Next & next) {
    if (i == nodes.size()) {
        return next(at);
    }
    return match(nodes[i], text, at, [&](size_t end) { return match_sequence(nodes, i + 1, text, end, next); });
}

// Ends after 0, 1, 2, … repeats of what is there, as many as there can be.
bool match_repeat(const Node & node, const CodePoints & text, size_t at, const Next & next) {
    const Node &        child = node.alternatives[0][0];
    std::vector<size_t> ends  = {at};
    while (ends.size() <= node.max) {
        size_t     end   = MANY;
        const bool again = match(child, text, ends.back(), [&](size_t x) {
            end = x;
            return true;
        });
        if (!again || end == ends.back()) {
            break;
        }
        ends.push_back(end);
    }
    for (size_t n = ends.size(); n-- > node.min;) {
        if (next(ends[n])) {
            return true;
        }
        if (node.possessive) {
            return false;
        }
    }
    return false;
}

bool match(const Node & node, const CodePoints & text, size_t at, const Next & next) {
    switch (node.kind) {
        case Node::Kind::character: return at < text.size() && node.test(text[at]) && next(at + 1);
        case Node::Kind::repeat: return match_repeat(node, text, at, next);
        case Node::Kind::lookahead: {
            const bool found = std::any_of(node.alternatives.begin(), node.alternatives.end(), [&](const auto & nodes) {
                return match_sequence(nodes, 0, text, at, [](size_t) { return true; });
            });
            return found != node.negated && next(at);
        }
        case Node::Kind::group: break;
    }
    return std::any_of(node.alternatives.begin(), node.alternatives.end(),
                       [&](const auto & nodes) { return match_sequence(nodes, 0, text, at, next); });
}

} // namespace

CodePoints decode_utf8(const std::string & text) {
    CodePoints out;
    for (size_t at = 0; at < text.size();) {
        utf8proc_int32_t code = 0;
        const auto       n    = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t *>(text.data() + at),
                                                 static_cast<utf8proc_ssize_t>(text.size() - at), &code);
        if (n <= 0) {
            fail("ill-formed UTF-8 in ", in_quotes(text));
        }
        out.push_back(static_cast<uint32_t>(code));
        at += static_cast<size_t>(n);
    }
    return out;
}

std::string encode_utf8(uint32_t code) {
    utf8proc_uint8_t bytes[4];
    const auto       n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
    return std::string(reinterpret_cast<const char *>(bytes), static_cast<size_t>(n));
}

SplitPattern::SplitPattern(const std::string & pattern)
    : root_(std::make_shared<const Node>(Parser(pattern).parse())) {}

std::vector<size_t> SplitPattern::split(const CodePoints & text) const {
    std::vector<size_t> ends;
    size_t              begin = 0; // of what lies between
    for (size_t at = 0; at < text.size();) {
        size_t     end   = at;
        const bool found = match(*root_, text, at, [&](size_t x) {
            end = x;
            return x > at;
        });
        if (!found) {
            ++at;
            continue;
        }
        if (at > begin) {
            ends.push_back(at);
        }
        ends.push_back(end);
        at    = end;
        begin = end;
    }
    if (begin < text.size()) {
        ends.push_back(text.size());
    }
    return ends;
}

} // namespace buoy
