#include "param-flags.h"

#include <algorithm>
#include <filesystem>

namespace {

std::vector<buoy::Tap> parse_taps(const std::string & where, const std::string & text) {
    std::vector<buoy::Tap> taps;
    for (const std::string & name : split_list(where, text)) {
        const auto known = std::find_if(std::begin(buoy::tap_names), std::end(buoy::tap_names),
                                        [&](const auto & entry) { return entry.first == name; });
        if (known == std::end(buoy::tap_names)) {
            buoy::fail(where, ": ", buoy::in_quotes(name), " is not one of pattern, scores, q, k, v, resid");
        }
        if (std::find(taps.begin(), taps.end(), known->second) == taps.end()) {
            taps.push_back(known->second);
        }
    }
    return taps;
}

// Whether two names, of files that may not exist yet, mean the same one.
bool same_place(const std::string & a, const std::string & b) {
    std::error_code unknown;
    const auto      place_a = std::filesystem::weakly_canonical(std::filesystem::absolute(a, unknown), unknown);
    const auto      place_b = std::filesystem::weakly_canonical(std::filesystem::absolute(b, unknown), unknown);
    return a == b || (!unknown && place_a == place_b) || std::filesystem::equivalent(a, b, unknown);
}

void add_record_flags(FlagTable & table, AttnParams & a) {
    // remembers the flag, which without --attn-dump would do nothing
    const auto recording = [&a](auto set) {
        return [&a, set](const std::string & where, const std::string & text) {
            a.needs_dump.push_back(where);
            set(where, text);
        };
    };
    const auto list = [&](buoy::IndexRanges & target) {
        return recording([&target](const std::string & where, const std::string & text) {
            target = buoy::parse_index_ranges(where, text);
        });
    };
    table.text("--attn-dump", "FILE.npz", a.record.path,
               "record the attention of every step to a file that numpy.load can open");
    table.call("--attn-layers", "LIST", list(a.layers), "layers to record, such as 0,4-7 or 8-")
        .with_default("all")
        .with_setting("record.layers");
    table.call("--attn-heads", "LIST", list(a.heads), "heads to record")
        .with_default("all")
        .with_setting("record.heads");
    table.call("--attn-steps", "LIST", list(a.steps), "steps to record")
        .with_default("all")
        .with_setting("record.steps");
    table.call("--attn-rows", "LIST", list(a.rows), "query positions to record")
        .with_default("all")
        .with_setting("record.rows");
    Flag & taps =
        table.call("--attn-taps", "NAMES", recording([&a](const std::string & where, const std::string & text) {
                       a.record.taps = parse_taps(where, text);
                   }),
                   "what to record: pattern, scores, q, k, v, resid");
    taps.with_default("pattern").with_setting("record.taps");
    taps.is_list = true;
    for (const auto & [name, tap] : buoy::tap_names) {
        taps.values.emplace_back(name);
    }
    Flag & reduce =
        table.choice("--attn-reduce", buoy::reduce_names, a.record.reduce,
                     "record the whole pattern (none), its mean over heads, its mean over queries (received), or its "
                     "sums between regions");
    reduce.with_setting("record.reduce");
    reduce.set  = recording(reduce.set);
    Flag & type = table.choice("--attn-dtype", buoy::record_type_names, a.record.type, "data type of the recording");
    type.set    = recording(type.set);
    table
        .call("--attn-max-size", "SIZE", recording([&a](const std::string & where, const std::string & text) {
                  a.record.max_size = buoy::parse_size(where, text);
              }),
              "stop before recording if the file could exceed SIZE, such as 500M or 8G")
        .with_default("8G")
        .with_setting("record.max_size");
}

} // namespace

void add_attn_flags(FlagTable & table, CliParams & o) {
    AttnParams & a        = o.attn;
    const auto   add_edit = [&a](const std::string & where, const std::string & text) {
        try {
            a.edits.push_back(buoy::parse_edit(text));
        } catch (const buoy::Error & error) {
            buoy::fail(where, ": ", error.what());
        }
    };
    table.group("Attention");
    add_record_flags(table, a);
    table
        .text("--attn-regions", "FILE.json", a.regions,
              "named regions of the prompt, for --attn-reduce and --attn-edit")
        .with_setting("record.regions");
    table
        .call("--attn-edit", "SPEC", add_edit,
              "edit the attention: \"drop keys=sinks layers=0-7\" or \"bias keys=12-15 heads=3 +4.0\"; can be repeated")
        .repeatable = true;
    table.toggle("--attn-edit-compare", a.compare, true, "also run without the edits and show both texts");
}

void check_attn(const CliParams & o) {
    const AttnParams & a = o.attn;
    if (!a.needs_dump.empty() && a.record.path.empty()) {
        buoy::fail(a.needs_dump[0], " is about recording and needs --attn-dump FILE.npz");
    }
    if (o.force && a.record.path.empty() && o.visual_out.empty()) {
        buoy::fail("--force replaces files, so it needs --attn-dump FILE.npz or --diffusion-visual-out FILE");
    }
    if (!a.record.path.empty() && !o.logits_out.empty() && same_place(a.record.path, o.logits_out)) {
        buoy::fail("--attn-dump and --logits-out would both write ", buoy::in_quotes(o.logits_out));
    }
    if (!a.regions.empty() && !a.is_used()) {
        buoy::fail("--attn-regions needs --attn-dump or --attn-edit");
    }
    if (a.compare && a.edits.empty()) {
        buoy::fail("--attn-edit-compare needs --attn-edit");
    }
    if (a.compare && (o.chat || !o.logits_out.empty())) {
        buoy::fail("--attn-edit-compare compares two answers, so it can't be combined with ",
                   o.chat ? "-cnv" : "--logits-out");
    }
}
