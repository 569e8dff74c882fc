#include "table.h"

#include "buoy/message.h"
#include "buoy/printable.h"
#include "buoy/table.h"
#include "buoy/utf8.h"
#include "console.h"
#include "peak.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace {

struct Stat {
    double mean      = 0.0;
    double deviation = 0.0; // of the sample, 0 for a single one
};

Stat statistics(const std::vector<double> & samples) {
    Stat         stat;
    const double n = static_cast<double>(samples.size());
    for (double sample : samples) {
        stat.mean += sample / n;
    }
    for (double sample : samples) {
        stat.deviation += (sample - stat.mean) * (sample - stat.mean);
    }
    stat.deviation = samples.size() > 1 ? std::sqrt(stat.deviation / (n - 1.0)) : 0.0;
    return stat;
}

Stat tokens_per_s(const Measurement & m) {
    std::vector<double> rates;
    for (double ms : m.samples_ms) {
        rates.push_back(static_cast<double>(m.n_tokens) * 1000.0 / ms);
    }
    return statistics(rates);
}

Stat ms_per_forward(const Measurement & m) {
    Stat         stat = statistics(m.samples_ms);
    const double n    = static_cast<double>(std::max<int64_t>(m.n_forward, 1));
    return {stat.mean / n, stat.deviation / n};
}

// What of a step is spent neither in the pass nor on reducing its rows.
double host_ms(const Measurement & m) { return std::max(0.0, ms_per_forward(m).mean - m.forward_ms); }

double sampling_percent(const Measurement & m) {
    const double step = ms_per_forward(m).mean;
    return step > 0.0 ? 100.0 * (host_ms(m) + m.summary_ms) / step : 0.0;
}

std::string fixed(double value, int digits) {
    char text[64];
    std::snprintf(text, sizeof(text), "%.*f", digits, value);
    return text;
}

std::string with_deviation(const Stat & stat) { return fixed(stat.mean, 2) + " ± " + fixed(stat.deviation, 2); }

std::string mib(uint64_t bytes) { return fixed(static_cast<double>(bytes) / (1 << 20), 1); }

std::string base_name(const std::string & path) { return path.substr(path.rfind('/') + 1); }

std::string padded(const std::string & text, size_t width, bool left) {
    const std::string space(width - std::min(width, buoy::utf8_columns(text)), ' ');
    return left ? text + space : space + text;
}

nlohmann::ordered_json number_or_null(double value) {
    return value > 0.0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

// With the names of all fields begun alike.
void add_peak(nlohmann::ordered_json & json, const std::string & begin, const buoy::MachinePeak & peak) {
    json[begin + "threads"]         = peak.n_threads;
    json[begin + "instructions"]    = peak.instructions;
    json[begin + "f32_gmac_per_s"]  = number_or_null(peak.f32);
    json[begin + "bf16_gmac_per_s"] = number_or_null(peak.bf16);
    json[begin + "int8_gmac_per_s"] = number_or_null(peak.int8);
    json[begin + "memory_gb_per_s"] = number_or_null(peak.memory);
}

nlohmann::ordered_json to_json(const Case & one, const Measurement & m, bool profile, bool recorded) {
    nlohmann::ordered_json json;
    for (size_t i = 0; i < parameters().size(); i++) {
        const std::string & value = one.values[i];
        const bool number = !value.empty() && value.find_first_not_of("0123456789.") == std::string::npos && i > 0;
        json[parameters()[i].column] = value.empty() ? nlohmann::ordered_json(nullptr)
                                       : number      ? nlohmann::ordered_json::parse(value, nullptr, false)
                                                     : nlohmann::ordered_json(value);
    }
    const bool generation            = one.forward_tokens == 0;
    const Stat rate                  = tokens_per_s(m);
    const Stat forward               = ms_per_forward(m);
    json["arch"]                     = m.arch;
    json["type"]                     = m.type;
    json["tokens_per_s"]             = generation ? nlohmann::ordered_json(rate.mean) : nullptr;
    json["tokens_per_s_deviation"]   = generation ? nlohmann::ordered_json(rate.deviation) : nullptr;
    json["ms_per_forward"]           = forward.mean;
    json["ms_per_forward_deviation"] = forward.deviation;
    json["forwards"]                 = m.n_forward;
    json["total_ms"]                 = statistics(m.samples_ms).mean;
    json["load_ms"]                  = m.load_ms;
    if (recorded) { // in every row, so that all have the same fields
        json["attn_ratio"] = one.attn ? nlohmann::ordered_json(m.attn_ratio) : nullptr;
        json["attn_bytes"] = one.attn ? nlohmann::ordered_json(m.attn_bytes) : nullptr;
    }
    if (profile) {
        json["pass_ms"]          = m.forward_ms;
        json["summary_ms"]       = m.summary_ms;
        json["host_ms"]          = host_ms(m);
        json["sampling_percent"] = sampling_percent(m);
    }
    json["peak_bytes"]    = m.peak_bytes;
    json["weight_bytes"]  = m.weight_bytes;
    json["kv_bytes"]      = m.kv_bytes;
    json["compute_bytes"] = m.compute_bytes;
    json["samples_ms"]    = m.samples_ms;
    return json;
}

// A list is one field, its parts separated by spaces.
buoy::analysis::Cell csv_cell(const nlohmann::ordered_json & value) {
    if (value.is_number_integer()) {
        return value.get<int64_t>();
    }
    if (value.is_number()) {
        return value.get<double>();
    }
    std::string text;
    for (const auto & part : value.is_array() ? value : nlohmann::ordered_json::array()) {
        text += (text.empty() ? "" : " ") + part.dump();
    }
    return value.is_string() ? value.get<std::string>() : text;
}

void print_csv(const nlohmann::ordered_json & json, bool with_head) {
    buoy::analysis::Table table;
    table.rows.emplace_back();
    for (const auto & [key, value] : json.items()) {
        table.columns.push_back({key});
        table.rows[0].push_back(csv_cell(value));
    }
    const std::string text = to_csv(table);
    print_text(text.substr(with_head ? 0 : text.find('\n') + 1));
}

// Of the shares that a row has; none where nothing was counted, as for a model on a GPU.
void add_shares(nlohmann::ordered_json & json, const Measurement & m, const buoy::MachinePeak & peak) {
    const PeakShare share   = share_of(m.work, ms_per_forward(m).mean, peak);
    json["peak_percent"]    = number_or_null(share.arithmetic);
    json["memory_percent"]  = number_or_null(share.memory);
    json["int8_gmac"]       = static_cast<double>(m.work.quantised) * 1e-9;
    json["f16_gmac"]        = static_cast<double>(m.work.f16) * 1e-9;
    json["bf16_gmac"]       = static_cast<double>(m.work.bf16) * 1e-9;
    json["f32_gmac"]        = static_cast<double>(m.work.f32) * 1e-9;
    json["weights_read_gb"] = static_cast<double>(m.work.weight_bytes) * 1e-9;
    add_peak(json, "peak_", peak);
}

void print_json(const nlohmann::ordered_json & json, OutputFormat format, bool first) {
    const std::string text =
        buoy::printable_json(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    switch (format) {
        case OutputFormat::md: break;
        case OutputFormat::csv: print_csv(json, first); break;
        case OutputFormat::json: print_text((first ? "[" : ",") + ("\n  " + text)); break;
        case OutputFormat::jsonl: print_text(text + "\n"); break;
    }
}

std::string share_text(double percent) { return percent > 0.0 ? fixed(percent, 1) : ""; }

// A parameter's value, as a row of the table has it.
std::string shown_value(size_t index, const Case & one) {
    const std::string & value = one.values[index];
    return index == 0 ? buoy::printable(base_name(value)) : value.empty() ? "auto" : value;
}

} // namespace

Table::Table(const BenchParams & params)
    : params_(params), recorded_(std::any_of(params.cases.begin(), params.cases.end(),
                                             [](const Case & one) { return one.attn.has_value(); })) {
    for (size_t i = 0; i < parameters().size(); i++) {
        const auto &      cases     = params.cases;
        const bool        differs   = std::any_of(cases.begin(), cases.end(),
                                                  [&](const Case & one) { return one.values[i] != cases.front().values[i]; });
        const Parameter & parameter = parameters()[i];
        const auto unused = cases.front().forward_tokens == 0 ? Parameter::Use::forward : Parameter::Use::generation;
        const bool basic  = parameter.is_basic || (recorded_ && i == parameter_index("attn"));
        if (differs || (basic && parameter.use != unused)) {
            shown_.push_back(i);
        }
    }
}

Table::~Table() {
    if (params_.format == OutputFormat::json && !rows_.empty()) {
        print_text("\n]\n");
    }
}

void Table::print_markdown_head() {
    for (size_t i : shown_) {
        heads_.emplace_back(parameters()[i].column);
        size_t width = heads_.back().size();
        for (const Case & one : params_.cases) {
            width = std::max(width, buoy::utf8_columns(shown_value(i, one)));
        }
        widths_.push_back(width);
        if (i == 0) {
            heads_.insert(heads_.end(), {"type", "weights MiB"});
            widths_.insert(widths_.end(), {6, std::string("weights MiB").size()});
        }
    }
    std::vector<std::string> measured;
    if (params_.cases.front().forward_tokens == 0) {
        measured = {"tokens/s", "ms/forward", "forwards"};
    } else {
        measured = {"ms/forward"};
    }
    if (recorded_) {
        measured.insert(measured.end(), {"× plain", "attn MiB"});
    }
    if (params_.profile) {
        measured.insert(measured.end(), {"pass ms", "summary ms", "host ms", "sampling %"});
    }
    if (params_.growth) {
        measured.insert(measured.end(), {"K/V MiB", "compute MiB"});
    }
    if (params_.peak) {
        measured.insert(measured.end(), {"% of peak", "% of memory"});
    }
    measured.emplace_back("peak MiB");
    for (const std::string & head : measured) {
        heads_.push_back(head);
        widths_.push_back(head == "ms/forward" || head == "tokens/s" ? 18 : std::max<size_t>(head.size(), 8));
    }
    std::string top, rule;
    for (size_t i = 0; i < heads_.size(); i++) {
        top += "| " + padded(heads_[i], widths_[i], i == 0) + " ";
        rule += i == 0 ? "| " + std::string(widths_[i], '-') + " " : "| " + std::string(widths_[i] - 1, '-') + ": ";
    }
    print_text(top + "|\n" + rule + "|\n");
}

std::vector<std::string> Table::cells(const Row & row) const {
    const Measurement &      m = row.measured;
    std::vector<std::string> cells;
    for (size_t i : shown_) {
        cells.push_back(shown_value(i, row.one));
        if (i == 0) {
            cells.insert(cells.end(), {m.type, mib(m.weight_bytes)});
        }
    }
    if (row.one.forward_tokens == 0) {
        cells.push_back(with_deviation(tokens_per_s(m)));
    }
    cells.push_back(with_deviation(ms_per_forward(m)));
    if (row.one.forward_tokens == 0) {
        cells.push_back(std::to_string(m.n_forward));
    }
    if (recorded_) {
        cells.push_back(row.one.attn ? fixed(m.attn_ratio, 3) : "");
        cells.push_back(row.one.attn ? mib(m.attn_bytes) : "");
    }
    if (params_.profile) {
        cells.insert(cells.end(), {fixed(m.forward_ms, 2), fixed(m.summary_ms, 2), fixed(host_ms(m), 2),
                                   fixed(sampling_percent(m), 2)});
    }
    if (params_.growth) {
        cells.insert(cells.end(), {mib(m.kv_bytes), mib(m.compute_bytes)});
    }
    if (row.peak) {
        const PeakShare share = share_of(m.work, ms_per_forward(m).mean, *row.peak);
        cells.insert(cells.end(), {share_text(share.arithmetic), share_text(share.memory)});
    }
    cells.push_back(mib(m.peak_bytes));
    return cells;
}

void Table::print_markdown(const Row & row) {
    const std::vector<std::string> texts = cells(row);
    std::string                    line;
    for (size_t i = 0; i < texts.size(); i++) {
        line += "| " + padded(texts[i], widths_[i], i == 0) + " ";
    }
    print_text(line + "|\n");
}

void Table::add(const Case & one, const Measurement & measured, const std::optional<buoy::MachinePeak> & peak) {
    rows_.push_back({one, measured, peak});
    const bool first = rows_.size() == 1; // only then is it known that there is anything to print
    if (params_.format == OutputFormat::md) {
        if (first) {
            print_markdown_head();
        }
        print_markdown(rows_.back());
    } else {
        nlohmann::ordered_json json = to_json(one, measured, params_.profile, recorded_);
        if (peak) {
            add_shares(json, measured, *peak);
        }
        print_json(json, params_.format, first);
    }
}

void Table::finish_growth() const {
    if (params_.format != OutputFormat::md || rows_.empty()) {
        return;
    }
    const Row & first = rows_.front();
    print_text("\n");
    for (const Row & row : rows_) {
        const Measurement & m    = row.measured;
        const double        time = ms_per_forward(m).mean / ms_per_forward(first.measured).mean;
        const double        over =
            (static_cast<double>(m.peak_bytes) - static_cast<double>(m.kv_bytes)) / static_cast<double>(m.weight_bytes);
        print_line("%d tokens: %.2f × the time at %d; peak memory is %.2f × weights + K/V", row.one.forward_tokens,
                   time, first.one.forward_tokens, over);
    }
}

void print_peaks(const std::vector<buoy::MachinePeak> & peaks, OutputFormat format) {
    if (format == OutputFormat::md) {
        print_text("| threads | instructions | F32 GMAC/s | BF16 GMAC/s | int8 GMAC/s | memory GB/s |\n"
                   "| ------: | :----------- | ---------: | ----------: | ----------: | ----------: |\n");
    }
    const auto number = [](double value) { return value > 0.0 ? fixed(value, 1) : "–"; };
    for (size_t i = 0; i < peaks.size(); i++) {
        const buoy::MachinePeak & peak = peaks[i];
        if (format == OutputFormat::md) {
            print_line("| %7d | %s | %s | %s | %s | %s |", peak.n_threads, padded(peak.instructions, 12, true).c_str(),
                       padded(number(peak.f32), 10, false).c_str(), padded(number(peak.bf16), 11, false).c_str(),
                       padded(number(peak.int8), 11, false).c_str(), padded(number(peak.memory), 11, false).c_str());
        } else {
            nlohmann::ordered_json json;
            add_peak(json, "", peak);
            print_json(json, format, i == 0);
        }
    }
    if (format == OutputFormat::json) {
        print_text("\n]\n");
    }
}
