#include "analysis/anchors.h"

#include "buoy/message.h"
#include "buoy/parse.h"
#include "observe/sinks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace buoy::analysis {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double code_amount =
    3; // above the mean of the others: what the authors' code asks for, and no softmax can give

double sum_of(const std::vector<double> & values) { return std::accumulate(values.begin(), values.end(), 0.0); }

std::vector<size_t> above_others(const std::vector<double> & received, double amount) {
    const double        sum    = sum_of(received);
    const auto          others = static_cast<double>(received.size()) - 1;
    std::vector<size_t> found;
    for (size_t j = 0; j < received.size(); j++) {
        if (received[j] > (others > 0 ? (sum - received[j]) / others : 0.0) + amount) {
            found.push_back(j);
        }
    }
    return found;
}

std::vector<size_t> largest_k(const std::vector<double> & received, size_t k) {
    std::vector<size_t> order(received.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return received[a] > received[b]; });
    order.resize(std::min(k, order.size()));
    std::sort(order.begin(), order.end());
    return order;
}

std::string number_text(double value) { return concat(value); }

} // namespace

std::string AnchorRule::text() const {
    switch (kind) {
        case Kind::automatic: return "auto";
        case Kind::std: return "std:" + number_text(amount);
        case Kind::code: return "code";
        case Kind::above: return "above:" + number_text(amount);
        case Kind::bos: return "bos";
        case Kind::top_k: return "top-k:" + std::to_string(k);
    }
    return "";
}

AnchorRule parse_rule(const std::string & text) {
    const size_t      colon = text.find(':');
    const std::string name  = text.substr(0, colon);
    const std::string value = colon == std::string::npos ? "" : text.substr(colon + 1);
    const bool        bare  = colon == std::string::npos;
    const auto        real  = parse_number<double>(value);
    const auto        whole = parse_number<uint32_t>(value);
    const bool        fits  = real && std::isfinite(*real) && *real >= 0;
    AnchorRule        rule;
    if (name == "auto" && bare) {
        rule.kind = AnchorRule::Kind::automatic;
    } else if (name == "code" && bare) {
        rule.kind = AnchorRule::Kind::code;
    } else if (name == "std" && (bare || fits)) {
        rule.amount = bare ? rule.amount : *real;
    } else if (name == "above" && fits) {
        rule.kind   = AnchorRule::Kind::above;
        rule.amount = *real;
    } else if (name == "bos" && bare) {
        rule.kind = AnchorRule::Kind::bos;
    } else if (name == "top-k" && (bare || (whole && *whole > 0))) {
        rule.kind = AnchorRule::Kind::top_k;
        rule.k    = bare ? rule.k : *whole;
    } else {
        fail("`rule`: ", in_quotes(text), " is not one of std, std:EPSILON, above:AMOUNT, code, bos, top-k:K and auto");
    }
    return rule;
}

AnchorRule resolve_rule(const AnchorRule & rule, bool causal) {
    if (rule.kind != AnchorRule::Kind::automatic) {
        return rule;
    }
    return {causal ? AnchorRule::Kind::bos : AnchorRule::Kind::code, 3, 1};
}

const char * Anchors::source() const {
    return positions.empty() ? "none" : fallback ? "fallback" : named ? "named" : "rule";
}

double Anchors::found() const { return named ? nan : from_rule() ? 1 : 0; }

Anchors find_anchors(const std::vector<double> & received, const AnchorRule & rule) {
    switch (rule.kind) {
        case AnchorRule::Kind::automatic:
        case AnchorRule::Kind::code: {
            const std::vector<size_t> found = above_others(received, code_amount);
            return found.empty() ? Anchors{largest_k(received, 1), true} : Anchors{found};
        }
        case AnchorRule::Kind::above: return {above_others(received, rule.amount)};
        case AnchorRule::Kind::std: return {columns_above(received, rule.amount)};
        case AnchorRule::Kind::bos:
            return {largest_k(std::vector<double>(std::min<size_t>(received.size(), 1)), 1), false, true};
        case AnchorRule::Kind::top_k: return {largest_k(received, rule.k), false, true};
    }
    return {};
}

std::string mark_label(const AnchorRule & rule) {
    switch (rule.kind) {
        case AnchorRule::Kind::automatic:
        case AnchorRule::Kind::code: return "largest column, no threshold is met (rule code)";
        case AnchorRule::Kind::above: return concat("anchor: more than the mean of the others + ", rule.amount);
        case AnchorRule::Kind::std:
            return concat("anchor: more than ", rule.amount, " standard deviations above the mean");
        case AnchorRule::Kind::bos: return "first position (rule bos)";
        case AnchorRule::Kind::top_k:
            return rule.k == 1 ? "largest column (rule top-k:1)"
                               : concat(rule.k, " largest columns (rule top-k:", rule.k, ")");
    }
    return "";
}

std::string anchors_text(const AnchorRule & rule) {
    switch (rule.kind) {
        case AnchorRule::Kind::automatic:
        case AnchorRule::Kind::code: return "the largest column (no threshold is met)";
        case AnchorRule::Kind::above:
        case AnchorRule::Kind::std: return "the anchors";
        case AnchorRule::Kind::bos: return "the first position";
        case AnchorRule::Kind::top_k:
            return rule.k == 1 ? "the largest column" : concat("the ", rule.k, " largest columns");
    }
    return "";
}

std::string largest_text(const AnchorRule & rule) {
    return rule.has_threshold()                   ? "the largest anchor"
           : rule.kind == AnchorRule::Kind::top_k ? "the largest column"
                                                  : anchors_text(rule);
}

size_t largest(const std::vector<double> & received) {
    return static_cast<size_t>(std::max_element(received.begin(), received.end()) - received.begin());
}

double share_of(const std::vector<double> & received, const std::vector<size_t> & positions) {
    double part = 0;
    for (size_t j : positions) {
        part += received.at(j);
    }
    const double sum = sum_of(received);
    return sum > 0 ? part / sum : nan;
}

double effective_share(const std::vector<double> & received) {
    const double sum     = sum_of(received);
    double       entropy = 0;
    for (double value : received) {
        if (value > 0) {
            entropy -= value / sum * std::log(value / sum);
        }
    }
    return sum > 0 ? std::exp(entropy) / static_cast<double>(received.size()) : nan;
}

size_t n_common(const std::vector<size_t> & a, const std::vector<size_t> & b) {
    std::vector<size_t> both;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
    return both.size();
}

double jaccard(const std::vector<size_t> & a, const std::vector<size_t> & b) {
    const size_t both = n_common(a, b);
    const size_t any  = a.size() + b.size() - both;
    return a.empty() || b.empty() ? nan : static_cast<double>(both) / static_cast<double>(any);
}

double total_variation(const std::vector<double> & a, const std::vector<double> & b) {
    const double sum_a = sum_of(a), sum_b = sum_of(b);
    double       out = 0;
    for (size_t j = 0; j < std::max(a.size(), b.size()); j++) {
        const double of_a = j < a.size() ? a[j] / sum_a : 0;
        const double of_b = j < b.size() ? b[j] / sum_b : 0;
        out += std::abs(of_a - of_b) / 2;
    }
    return sum_a > 0 && sum_b > 0 ? out : nan;
}

} // namespace buoy::analysis
