#include "eval/condition.h"
#include "buoy/message.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

namespace buoy {

namespace {

using Kind = QaCondition::Kind;

} // namespace

std::vector<QaCondition> make_conditions(const QaPlan & plan) {
    if (plan.passages.empty()) {
        fail("no number of passages given");
    }
    const size_t             n_base = *std::max_element(plan.passages.begin(), plan.passages.end());
    std::vector<QaCondition> out;
    const auto               add = [&](const std::string & name, Kind kind, size_t n_passages) -> QaCondition & {
        QaCondition & condition = out.emplace_back();
        condition.name          = name;
        condition.kind          = kind;
        condition.n_passages    = n_passages;
        return condition;
    };
    if (plan.closed_book) {
        add("closed-book", Kind::closed_book, 0);
    }
    for (const size_t n : plan.passages) {
        add(concat("passages=", n), Kind::passages, n);
    }
    std::vector<size_t> positions = plan.gold_positions;
    if (plan.all_positions) {
        positions.resize(n_base);
        std::iota(positions.begin(), positions.end(), size_t{1});
    }
    for (const size_t position : positions) {
        if (position < 1 || position > n_base) {
            fail("gold position ", position, ", expected 1 to ", n_base, ", the number of passages");
        }
        add(concat("gold-position=", position), Kind::gold_position, n_base).value = position;
    }
    for (const size_t n : plan.noise) {
        add(concat("noise=", n), Kind::noise, n_base).value = n;
    }
    const std::vector<std::tuple<bool, const char *, Kind>> switches = {
        {plan.shuffle, "shuffle", Kind::shuffle},
        {plan.drop_gold, "drop-gold", Kind::drop_gold},
        {plan.repeat_gold, "repeat-gold", Kind::repeat_gold},
    };
    for (const auto & [wanted, name, kind] : switches) {
        if (wanted) {
            add(name, kind, n_base);
        }
    }
    for (const double share : plan.truncate_gold) {
        add(concat("truncate-gold=", share), Kind::truncate_gold, n_base).share = share;
    }
    if (plan.contradict) {
        add("contradict", Kind::contradict, n_base);
    }
    for (const QaEdit & edit : plan.edits) {
        add("edit=" + edit.name, Kind::edited, n_base).edits = edit.specs;
    }
    std::set<std::string> names;
    for (const QaCondition & condition : out) {
        if (!names.insert(condition.name).second) {
            fail("the condition ", in_quotes(condition.name), " is given twice");
        }
    }
    return out;
}

} // namespace buoy
