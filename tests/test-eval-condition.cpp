// What each condition shows of a question.

#include "buoy/error.h"
#include "eval/condition.h"
#include "eval/dataset.h"
#include "eval/prompt.h"
#include "eval/score.h"
#include "support/text.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace buoy;
using namespace buoy::test;

namespace {

// Questions 0 … n-1, each with its gold passage at place 3 of 6, "gold<i>", among "other<i>-<j>".
std::vector<QaItem> some_items(size_t n = 30) {
    std::vector<QaItem> items(n);
    for (size_t i = 0; i < n; i++) {
        const std::string number = std::to_string(i);
        items[i].index           = i;
        items[i].id              = "id" + number;
        items[i].question        = (i % 2 == 0 ? "Who is " : "Where is ") + number;
        items[i].answers         = {"value" + number + "x"};
        items[i].flagged         = true;
        for (int j = 0; j < 6; j++) {
            const bool gold = j == 2;
            items[i].passages.push_back({"",
                                         gold ? "gold" + number + " is Value" + number + "x and value" + number + "x."
                                              : "other" + number + "-" + std::to_string(j),
                                         gold});
        }
    }
    return items;
}

const std::vector<QaItem> & items() {
    static const std::vector<QaItem> made = some_items();
    return made;
}

QaShown shown(const QaPlan & plan, const std::string & name, const QaItem & item, uint64_t seed = 1) {
    const std::vector<QaCondition> conditions = make_conditions(plan);
    const auto                     found =
        std::find_if(conditions.begin(), conditions.end(), [&](const auto & c) { return c.name == name; });
    REQUIRE(found != conditions.end());
    const QaConditions all(items(), seed);
    CHECK(all.applies(*found, item));
    return all.show(*found, item);
}

std::string texts(const QaShown & what) {
    std::string out;
    for (const QaPassage & passage : what.passages) {
        out += (out.empty() ? "" : "|") + first_words(passage.text, 1);
    }
    return out;
}

size_t gold_place(const QaShown & what) { // from 1
    const auto found = std::find_if(what.passages.begin(), what.passages.end(), [](const auto & p) { return p.gold; });
    return static_cast<size_t>(found - what.passages.begin()) + 1;
}

} // namespace

TEST_CASE("columns have the order of the plan") {
    QaPlan plan;
    plan.passages      = {1, 3};
    plan.all_positions = true;
    plan.noise         = {0, 2};
    plan.shuffle       = true;
    plan.truncate_gold = {0.5};
    plan.contradict    = true;
    plan.edits         = {{"mine", {parse_edit("drop keys=0")}}};
    std::string names;
    for (const QaCondition & condition : make_conditions(plan)) {
        names += condition.name + " ";
    }
    CHECK(names == "closed-book passages=1 passages=3 gold-position=1 gold-position=2 gold-position=3 noise=0 noise=2 "
                   "shuffle truncate-gold=0.5 contradict edit=mine ");
    plan.all_positions  = false;
    plan.gold_positions = {4};
    CHECK_THROWS_WITH_AS(make_conditions(plan), "gold position 4, expected 1 to 3, the number of passages", Error);
}

TEST_CASE("passages are dropped from the end, gold ones last") {
    QaPlan plan;
    plan.passages = {1, 2, 5, 9};
    CHECK(shown(plan, "closed-book", items()[4]).passages.empty());
    CHECK(texts(shown(plan, "passages=1", items()[4])) == "gold4");
    CHECK(texts(shown(plan, "passages=2", items()[4])) == "other4-0|gold4");
    CHECK(texts(shown(plan, "passages=5", items()[4])) == "other4-0|other4-1|gold4|other4-3|other4-4");
    CHECK(shown(plan, "passages=9", items()[4]).passages.size() == 6);
    QaItem retrieved  = items()[4]; // nobody said which is gold: the retriever's order is what counts
    retrieved.flagged = false;
    CHECK(texts(shown(plan, "passages=2", retrieved)) == "other4-0|other4-1");
}

TEST_CASE("the gold passage moves, the others keep their order") {
    QaPlan plan;
    plan.passages      = {8};
    plan.all_positions = true;
    for (size_t position = 1; position <= 8; position++) {
        const QaShown what = shown(plan, "gold-position=" + std::to_string(position), items()[4]);
        CHECK(what.passages.size() == 8); // two of other questions fill up
        CHECK(gold_place(what) == position);
        QaShown others = what;
        others.passages.erase(others.passages.begin() + static_cast<std::ptrdiff_t>(position - 1));
        CHECK(contains(texts(others), "other4-0|other4-1|other4-3|other4-4|other4-5|"));
    }
}

TEST_CASE("noise comes from other questions and has no answer in it") {
    QaPlan plan;
    plan.noise = {0, 1, 4, 9};
    CHECK(texts(shown(plan, "noise=0", items()[4])) == "gold4");
    std::set<size_t> places;
    for (const QaItem & item : items()) {
        const QaShown         nine = shown(plan, "noise=9", item);
        std::set<std::string> different;
        for (const QaPassage & passage : nine.passages) {
            different.insert(passage.text);
            CHECK(passage.gold == has_answer(passage.text, item.answers));
            CHECK_FALSE(contains(passage.text, "other" + std::to_string(item.index) + "-"));
        }
        CHECK(different.size() == 10);
        places.insert(gold_place(nine));
        for (const QaPassage & passage : shown(plan, "noise=4", item).passages) {
            CHECK(different.count(passage.text) == 1); // more noise adds to the same
        }
    }
    CHECK(places.size() > 5);
    plan.noise = {1000};
    const QaConditions few(items(), 1);
    CHECK_THROWS_WITH_AS(few.show(make_conditions(plan).back(), items()[0]), doctest::Contains("of 1000 passages"),
                         Error);
}

TEST_CASE("what is drawn depends on the seed and the id alone") {
    QaPlan plan;
    plan.passages = {6};
    plan.shuffle  = true;
    plan.noise    = {5};
    for (const char * name : {"shuffle", "noise=5"}) {
        const std::string first = texts(shown(plan, name, items()[7]));
        CHECK(texts(shown(plan, name, items()[7])) == first);
        CHECK(texts(shown(plan, name, items()[7], 2)) != first);
    }
    CHECK(texts(shown(plan, "shuffle", items()[7])) != texts(shown(plan, "passages=6", items()[7])));
}

TEST_CASE("gold dropped, repeated, cut, contradicted") {
    QaPlan plan;
    plan.drop_gold = plan.repeat_gold = plan.contradict = true;
    plan.truncate_gold                                  = {0.25, 0.5};
    const QaItem & item                                 = items()[4];
    CHECK(texts(shown(plan, "drop-gold", item)) == "other4-0|other4-1|other4-3|other4-4");
    CHECK(texts(shown(plan, "repeat-gold", item)) == "other4-0|other4-1|gold4|other4-3|other4-4|gold4");
    CHECK(shown(plan, "truncate-gold=0.5", item).passages[2].text == "gold4 is Value4x"); // 3 of 5 words
    const QaShown what = shown(plan, "contradict", item);
    CHECK(what.passages.size() == 6);
    CHECK(what.false_answer != "value4x");
    const auto copy = std::find_if(what.passages.begin(), what.passages.end(),
                                   [&](const auto & p) { return contains(p.text, what.false_answer); });
    REQUIRE(copy != what.passages.end());
    CHECK_FALSE(copy->gold);
    CHECK(copy->text == "gold4 is " + what.false_answer + " and " + what.false_answer + ".");
    const size_t other = std::stoul(what.false_answer.substr(5));
    CHECK(other % 2 == 0); // a question that begins with the same words
}

TEST_CASE("without what it is about, a condition does not apply") {
    QaPlan plan;
    plan.noise   = {1};
    plan.shuffle = plan.drop_gold = plan.repeat_gold = plan.contradict = true;
    plan.truncate_gold                                                 = {0.5};
    plan.gold_positions                                                = {1};
    const QaConditions all(items(), 1);
    QaItem             no_gold = items()[0], bare = items()[0], unsaid = items()[0];
    no_gold.passages[2].gold = false;
    bare.passages.clear();
    unsaid.answers = {"nowhere"};
    for (const QaCondition & condition : make_conditions(plan)) {
        CAPTURE(condition.name);
        const bool plain = condition.name == "passages=5" || condition.name == "shuffle";
        CHECK(all.applies(condition, no_gold) == (plain || condition.name == "closed-book"));
        CHECK(all.applies(condition, bare) == (condition.name == "closed-book"));
        CHECK(all.applies(condition, unsaid) == (condition.name != "contradict"));
    }
}

TEST_CASE("an answer of which nothing is left is in every text, so no passage is drawn for it") {
    std::vector<QaItem> some = some_items();
    some[4].answers          = {"The", "value4x"};
    QaPlan plan;
    plan.gold_positions = {1};
    plan.noise          = {2};
    plan.contradict     = true;
    const QaConditions    all(some, 1);
    std::set<std::string> asked;
    for (const QaCondition & condition : make_conditions(plan)) {
        if (all.applies(condition, some[4])) {
            asked.insert(condition.name);
        }
        CHECK(all.applies(condition, some[5]));
        CHECK(all.show(condition, some[6]).false_answer != "The");
    }
    CHECK(asked == std::set<std::string>{"closed-book", "passages=5"});
}

TEST_CASE("several gold passages begin at the place asked for, or the question is not asked") {
    std::vector<QaItem> some = some_items();
    some[0].passages[4].gold = true;
    QaPlan plan;
    plan.all_positions = true;
    const QaConditions all(some, 1);
    size_t             n_asked = 0;
    for (const QaCondition & condition : make_conditions(plan)) {
        if (condition.kind == QaCondition::Kind::gold_position && all.applies(condition, some[0])) {
            const QaShown what = all.show(condition, some[0]);
            n_asked++;
            REQUIRE(what.passages.size() == 5);
            CHECK(what.passages[condition.value - 1].gold);
            CHECK(what.passages[condition.value].gold);
        }
    }
    CHECK(n_asked == 4); // of five places
}

TEST_CASE("an answer is replaced where it stands as words") {
    std::vector<QaItem> some = some_items();
    some[0].answers          = {"no"};
    some[0].passages[2].text = "Known in the North: No, said \xC3\xA9no, no.";
    QaPlan plan;
    plan.contradict = true;
    for (const QaCondition & condition : make_conditions(plan)) {
        if (condition.kind == QaCondition::Kind::contradict) {
            const QaShown     what  = QaConditions(some, 1).show(condition, some[0]);
            const std::string lie   = what.false_answer;
            const auto        found = std::find_if(what.passages.begin(), what.passages.end(),
                                                   [&](const QaPassage & p) { return p.text.find(lie) != std::string::npos; });
            REQUIRE(found != what.passages.end());
            CHECK(found->text == "Known in the North: " + lie + ", said \xC3\xA9no, " + lie + ".");
        }
    }
}
