#include "eval/template.h"

#include "buoy/message.h"
#include "io/json-file.h"

#include <algorithm>
#include <set>

namespace buoy {

namespace {

const char * const standard_text = R"({{#has_passages}}
Answer the question with a few words from the passages.

{{/has_passages}}
{{^passages}}
Answer the question with a few words.

{{/passages}}
{{#passages}}
{{n}}. {{#title}}{{title}}: {{/title}}{{text}}
{{/passages}}
{{#has_passages}}

{{/has_passages}}
Question: {{question}}
Short answer:
)";

const std::set<std::string> values_anywhere = {"question"}, values_inside = {"n", "title", "text"},
                            sections_anywhere = {"passages", "has_passages"}, sections_inside = {"title"};

} // namespace

class PromptTemplate::Parser {
public:
    Parser(const std::string & name, const std::string & text) : name_(name), text_(text) {}

    std::vector<Node> parse() {
        std::vector<Node> nodes = parse_until("");
        if (!has_question_) {
            fail(printable(name_), ": has no {{question}}");
        }
        return nodes;
    }

private:
    [[noreturn]] void wrong(const std::string & what) const {
        const auto line = std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n') + 1;
        fail(printable(name_), ":", line, ": ", what);
    }

    bool inside() const { return std::find(open_.begin(), open_.end(), "passages") != open_.end(); }

    std::vector<Node> parse_until(const std::string & section) {
        std::vector<Node> nodes;
        while (true) {
            const size_t tag = std::min(text_.find("{{", at_), text_.size());
            nodes.push_back({Node::Kind::text, text_.substr(at_, tag - at_), {}});
            at_ = tag;
            if (tag == text_.size()) {
                if (!section.empty()) {
                    wrong("the section " + in_quotes(section) + " is not closed");
                }
                return nodes;
            }
            const size_t end = text_.find("}}", tag);
            if (end == std::string::npos) {
                wrong("{{ without }}");
            }
            const std::string name = text_.substr(tag + 2, end - tag - 2);
            const char        sign = name.empty() ? '\0' : name[0];
            if (sign == '#' || sign == '^' || sign == '/') {
                check_name(name.substr(1), sections_anywhere, sections_inside, sign == '/');
                skip_tag(tag, end + 2, nodes.back().text);
                if (sign == '/') {
                    if (name.substr(1) != section) {
                        wrong("{{" + printable(name) + "}} closes nothing");
                    }
                    return nodes;
                }
                nodes.push_back(section_of(sign, name.substr(1)));
            } else {
                check_name(name, values_anywhere, values_inside, false);
                has_question_ = has_question_ || name == "question";
                at_           = end + 2;
                nodes.push_back({Node::Kind::value, name, {}});
            }
        }
    }

    Node section_of(char sign, const std::string & name) {
        const bool loop = sign == '#' && name == "passages";
        if (loop && inside()) {
            wrong("passages inside passages");
        }
        open_.push_back(loop ? "passages" : "");
        Node node{sign == '#' ? Node::Kind::section : Node::Kind::inverted, name, parse_until(name)};
        open_.pop_back();
        return node;
    }

    void check_name(const std::string & name, const std::set<std::string> & anywhere,
                    const std::set<std::string> & within, bool closing) const {
        const bool known = anywhere.count(name) > 0 || (within.count(name) > 0 && (inside() || closing));
        if (!known) {
            const bool only_inside = within.count(name) > 0;
            wrong("{{" + printable(name) + "}} " + (only_inside ? "is only known inside passages" : "is not known"));
        }
    }

    // The tag of a section; alone on its line it takes the line with it.
    void skip_tag(size_t first, size_t last, std::string & before) {
        const size_t line  = first == 0 ? 0 : text_.rfind('\n', first - 1) + 1; // 0 where there is none
        const bool   begin = text_.find_first_not_of(" \t", line) == first;
        const size_t rest  = text_.find_first_not_of(" \t\r", last);
        const bool   ends  = rest == std::string::npos || text_[rest] == '\n';
        at_                = last;
        if (begin && ends) {
            before.resize(before.size() - (first - line));
            at_ = rest == std::string::npos ? text_.size() : rest + 1;
        }
    }

    const std::string &      name_;
    const std::string &      text_;
    size_t                   at_           = 0;
    bool                     has_question_ = false;
    std::vector<std::string> open_;
};

class PromptTemplate::Renderer {
public:
    Renderer(const std::string & question, const std::vector<QaPassage> & passages)
        : question_(question), passages_(passages) {}

    RenderedPrompt render(const std::vector<Node> & nodes) {
        add(nodes, nullptr);
        return std::move(out_);
    }

private:
    void add(const std::vector<Node> & nodes, const QaPassage * passage) {
        for (const Node & node : nodes) {
            switch (node.kind) {
                case Node::Kind::text: out_.text += node.text; break;
                case Node::Kind::value: add_value(node.text, passage); break;
                case Node::Kind::section:
                    if (node.text == "passages") {
                        add_passages(node.children);
                    } else if (holds(node.text, passage)) {
                        add(node.children, passage);
                    }
                    break;
                case Node::Kind::inverted:
                    if (!holds(node.text, passage)) {
                        add(node.children, passage);
                    }
                    break;
            }
        }
    }

    bool holds(const std::string & name, const QaPassage * passage) const {
        return name == "title" ? passage != nullptr && !passage->title.empty() : !passages_.empty();
    }

    void add_value(const std::string & name, const QaPassage * passage) {
        const size_t first = out_.text.size();
        if (name == "question") {
            out_.text += question_;
            out_.question = {first, out_.text.size()};
        } else if (passage != nullptr) {
            out_.text += name == "n"       ? std::to_string(passage - passages_.data() + 1)
                         : name == "title" ? passage->title
                                           : passage->text;
        }
    }

    void add_passages(const std::vector<Node> & children) {
        constexpr const char * space = " \t\r\n";
        out_.passages.clear(); // of two loops the last one counts
        for (const QaPassage & passage : passages_) {
            const size_t begin = out_.text.size();
            add(children, &passage);
            const size_t first = std::min(out_.text.find_first_not_of(space, begin), out_.text.size());
            const size_t last  = out_.text.find_last_not_of(space);
            out_.passages.emplace_back(first, std::max(first, last == std::string::npos ? 0 : last + 1));
        }
    }

    const std::string &            question_;
    const std::vector<QaPassage> & passages_;
    RenderedPrompt                 out_;
};

PromptTemplate::PromptTemplate(const std::string & name, const std::string & text) : text_(text) {
    if (!text_.empty() && text_.back() == '\n') {
        text_.pop_back();
    }
    nodes_ = Parser(name, text_).parse();
}

PromptTemplate PromptTemplate::load(const std::string & path) { return {path, load_text(path)}; }

PromptTemplate PromptTemplate::standard() { return {"the standard template", standard_text}; }

RenderedPrompt PromptTemplate::render(const std::string & question, const std::vector<QaPassage> & passages) const {
    return Renderer(question, passages).render(nodes_);
}

} // namespace buoy
