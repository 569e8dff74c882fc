// Prompts of questions with passages: the template, where its parts are in the tokens, and what happens when they don't fit.

#include "buoy/bundled.h"
#include "buoy/error.h"
#include "eval/prompt.h"
#include "support/text.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace buoy;
using namespace buoy::test;

namespace {

const std::vector<QaPassage> two = {{"Towns", "Mira lives in Velmar.", false}, {"", "Oren lives in Saltby.", true}};

const Vocab & vocab() {
    static const Vocab loaded = Vocab::load(find_model(bundled_diffusion_model));
    return loaded;
}

std::string text_of(const QaPrompt & prompt, const std::string & name) {
    std::string text;
    for (const Region & region : prompt.regions) {
        for (const auto & [first, last] : region.spans) {
            if (region.name == name) {
                const auto begin = prompt.tokens.begin();
                text += vocab().decode(
                    {begin + first, begin + std::min<int32_t>(last, static_cast<int32_t>(prompt.tokens.size()))}, true);
            }
        }
    }
    return text;
}

std::string refusal(const std::string & text) {
    try {
        PromptTemplate("t.txt", text);
    } catch (const Error & error) {
        return error.what();
    }
    return "";
}

} // namespace

TEST_CASE("the standard template") {
    const PromptTemplate form = PromptTemplate::standard();
    CHECK(form.render("Who?", {}).text == "Answer the question with a few words.\n\nQuestion: Who?\nShort answer:");
    const RenderedPrompt out = form.render("Who?", two);
    CHECK(out.text ==
          "Answer the question with a few words from the passages.\n\n1. Towns: Mira lives in Velmar.\n2. Oren "
          "lives in Saltby.\n\nQuestion: Who?\nShort answer:");
    CHECK(out.text.substr(out.question.first, out.question.second - out.question.first) == "Who?");
    REQUIRE(out.passages.size() == 2);
    CHECK(out.text.substr(out.passages[1].first, out.passages[1].second - out.passages[1].first) ==
          "2. Oren lives in Saltby.");
}

TEST_CASE("a template of one's own") {
    const PromptTemplate form("t.txt", "{{#passages}}[{{text}}{{^title}}!{{/title}}] {{/passages}}{{question}}\n  "
                                       "{{#has_passages}}  \nx\n{{/has_passages}}\nend\n\n");
    CHECK(form.render("Q", two).text == "[Mira lives in Velmar.] [Oren lives in Saltby.!] Q\nx\nend\n");
    CHECK(form.render("Q", {}).text == "Q\nend\n");
    CHECK(form.render("{{text}}", {}).text == "{{text}}\nend\n"); // what is put in is not read again
}

TEST_CASE("what is wrong with a template") {
    CHECK(refusal("nothing") == "t.txt: has no {{question}}");
    CHECK(refusal("a\n{{who}}") == "t.txt:2: {{who}} is not known");
    CHECK(refusal("{{text}}") == "t.txt:1: {{text}} is only known inside passages");
    CHECK(refusal("{{question") == "t.txt:1: {{ without }}");
    CHECK(contains(refusal("{{#passages}}\n{{question}}"), "the section 'passages' is not closed"));
    CHECK(contains(refusal("{{question}}{{/passages}}"), "closes nothing"));
    CHECK(contains(refusal("{{#passages}}{{#passages}}{{/passages}}{{/passages}}"), "passages inside passages"));
}

TEST_CASE("regions are where the parts are") {
    const PromptTemplate form   = PromptTemplate::standard();
    const QaPrompt       prompt = make_qa_prompt(vocab(), form, {false, 8, 512}, "Where does Oren live?", two);
    CHECK_FALSE(prompt.cut);
    CHECK(prompt.tokens == vocab().encode_chat({{"user", form.render("Where does Oren live?", two).text}}, true));
    CHECK(contains(text_of(prompt, "doc1"), "1. Towns: Mira lives in Velmar."));
    CHECK(contains(text_of(prompt, "doc2"), "Oren lives in Saltby."));
    CHECK(text_of(prompt, "gold") == text_of(prompt, "doc2"));
    CHECK(contains(text_of(prompt, "question"), "Where does Oren live?"));
    CHECK_FALSE(contains(text_of(prompt, "question"), "Saltby"));
    CHECK(text_of(prompt, "bos") == vocab().piece(vocab().bos()));
    const auto       n_all = prompt.tokens.size() + 8;
    std::vector<int> covered(n_all);
    for (const Region & region : prompt.regions) {
        for (const auto & [first, last] : region.spans) {
            for (int32_t i = first; i < last && region.name != "gold"; i++) {
                covered.at(static_cast<size_t>(i))++;
            }
        }
    }
    CHECK(std::count(covered.begin(), covered.end(), 1) == static_cast<std::ptrdiff_t>(n_all)); // each once
    const QaPrompt raw = make_qa_prompt(vocab(), form, {true, 8, 512}, "Where does Oren live?", two);
    CHECK(raw.tokens == vocab().encode(form.render("Where does Oren live?", two).text, true, false));
    CHECK(contains(text_of(raw, "gold"), "Oren lives in Saltby."));
}

TEST_CASE("the same passage twice, and odd characters") {
    std::vector<QaPassage> passages = {
        two[1], {"", "Na\xC3\xAFve \xE6\x97\xA5\xE6\x9C\xAC\xFF e\xCC\x81", false}, two[1]};
    const QaPrompt prompt =
        make_qa_prompt(vocab(), PromptTemplate("t", "{{#passages}}{{text}}\n{{/passages}}{{question}}"),
                       {false, 8, 512}, "Oren lives in Saltby.", passages);
    const std::string doc = text_of(prompt, "doc1");
    CHECK(contains(doc, "Oren lives in Saltby."));
    CHECK(contains(text_of(prompt, "doc3"), "Oren lives in Saltby."));
    CHECK(contains(text_of(prompt, "doc2"), "\xE6\x97\xA5\xE6\x9C\xAC"));
    CHECK(contains(text_of(prompt, "question"), "Oren lives in Saltby."));
}

TEST_CASE("the longest passages are cut until all fits, the question never") {
    std::string longer;
    for (int i = 0; i < 200; i++) {
        longer += "Mira has a fox. ";
    }
    const std::vector<QaPassage> passages = {{"", longer, false}, two[1], {"", longer + longer, false}};
    const PromptTemplate         form     = PromptTemplate::standard();
    for (const int32_t n_max : {100, 137, 400}) {
        const QaPrompt prompt = make_qa_prompt(vocab(), form, {false, 8, n_max}, "Where does Oren live?", passages);
        CAPTURE(n_max);
        CHECK(prompt.cut);
        CHECK_FALSE(prompt.too_long);
        const auto n_all = static_cast<int32_t>(prompt.tokens.size()) + 8;
        CHECK(n_all <= n_max);
        CHECK(n_all > n_max - 30); // no more than it takes
        CHECK(word_count(prompt.passages[0].text) == word_count(prompt.passages[2].text));
        CHECK(prompt.passages[1].text == two[1].text);
        CHECK(contains(text_of(prompt, "question"), "Where does Oren live?"));
    }
    CHECK_FALSE(make_qa_prompt(vocab(), form, {false, 8, 100000}, "Where?", passages).cut);
    const QaPrompt hopeless = make_qa_prompt(vocab(), form, {false, 8, 20}, "Where does Oren live?", passages);
    CHECK(hopeless.too_long);
}

TEST_CASE("words") {
    CHECK(word_count("") == 0);
    CHECK(word_count(" a\n b  c ") == 3);
    CHECK(first_words(" a\n b  c ", 2) == " a\n b");
    CHECK(first_words("a b", 9) == "a b");
    CHECK(first_words("a b", 0).empty());
}
