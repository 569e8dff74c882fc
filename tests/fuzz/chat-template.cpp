// Chat templates: parsed and run, each in a process of its own.

#include "mutate.h"
#include "target.h"

#include "text/chat-template.h"

namespace buoy::fuzz {

namespace {

std::vector<std::string> seeds() {
    return {
        "{% for m in messages %}<|{{ m.role }}|>\n{{ m['content'] | trim }}{{ eos_token }}\n{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
        "{%- set ns = namespace(n=0) -%}{%- for m in messages -%}{%- set ns.n = ns.n + 1 -%}"
        "{{- bos_token if loop.first else '' }}[{{ loop.index0 }}/{{ ns.n }}]{{ m.content | upper | replace('A', 'b') "
        "}}"
        "{%- endfor -%}",
        "{%- macro part(m, n) %}{% if n > 0 %}{{ part(m, n - 1) }}{% endif %}{{ m.content[:3] }}{% endmacro -%}"
        "{{ part(messages[0], 3) }}{{ messages | length * -1 // 2 % 7 ~ 'x' }}",
        "{{ raise_exception('no ' + messages[-1]['role']) }}",
        "{{ messages | tojson(indent=2) }}{{ 'a' in ['a', 'b'] and not (1 <= 2) }}{# c #}{{ strftime_now('%Y') }}",
    };
}

void run(const std::string & input) {
    const std::vector<ChatMessage> messages = {{"system", "Be kind."}, {"user", "caf\xc3\xa9 {{ x }}\n"}};

    const RenderedChat chat = ChatTemplate("fuzz", input, "<s>", "</s>").render(messages, true);
    size_t             end  = 0;
    for (const auto & [first, last] : chat.typed) {
        demand(end <= first && first < last && last <= chat.text.size(), "typed stretches lie in the text, in order");
        end = last;
    }
}

void mutate(std::string & input, Random & random) {
    static const std::vector<std::string> words = {"{{",
                                                   "}}",
                                                   "{%",
                                                   "%}",
                                                   "{%-",
                                                   "-%}",
                                                   "{#",
                                                   "#}",
                                                   "for m in messages",
                                                   "endfor",
                                                   "if",
                                                   "else",
                                                   "endif",
                                                   "set x =",
                                                   "macro f()",
                                                   "endmacro",
                                                   "f()",
                                                   "call f()",
                                                   "endcall",
                                                   "range(1000000)",
                                                   "* 1000000000",
                                                   "'a' * 99999999",
                                                   "| join",
                                                   "| tojson",
                                                   "| list",
                                                   "| map('upper')",
                                                   "(",
                                                   ")",
                                                   "[",
                                                   "]",
                                                   "-",
                                                   "not ",
                                                   "1e309",
                                                   "9223372036854775807",
                                                   "// 0",
                                                   "% 0",
                                                   "~",
                                                   "messages",
                                                   ".x",
                                                   "[0]",
                                                   "[::-1]",
                                                   "'",
                                                   "\\",
                                                   "is defined",
                                                   "namespace()",
                                                   "loop.",
                                                   "recursive",
                                                   "raise_exception(",
                                                   "strftime_now(",
                                                   "generation",
                                                   "break",
                                                   "continue",
                                                   "\xff"};
    mutate_text(input, random, words);
}

} // namespace

Target chat_template_target() { return {"chat-template", seeds, run, mutate}; }

} // namespace buoy::fuzz
