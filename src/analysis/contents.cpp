#include "analysis/contents.h"

#include "analysis/meta-reader.h"
#include "buoy/message.h"
#include "buoy/parse.h"
#include "io/json-file.h"

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <iomanip>
#include <map>
#include <sstream>
#include <sys/file.h>
#include <unistd.h>

namespace buoy::analysis {

namespace {

using Json = nlohmann::ordered_json;

bool ends_with(const std::string & text, const std::string & end) {
    return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

void add_member(const NpzReader & file, const NpzMember & member, MemberGroup & group) {
    group.n_members++;
    group.size += member.size;
    if (!ends_with(member.name, ".npy")) {
        return;
    }
    const NpyHeader header = file.header(member);
    group.type             = npy_type_name(header.type);
    if (group.n_members == 1) {
        group.shape_min = group.shape_max = header.shape;
    }
    if (group.shape_min.size() != header.shape.size()) {
        group.shape_min.clear();
        group.shape_max.clear();
        return;
    }
    for (size_t i = 0; i < header.shape.size(); i++) {
        group.shape_min[i] = std::min(group.shape_min[i], header.shape[i]);
        group.shape_max[i] = std::max(group.shape_max[i], header.shape[i]);
    }
}

std::string shape_text(const MemberGroup & group) {
    std::string text;
    for (size_t i = 0; i < group.shape_min.size(); i++) {
        text += (i > 0 ? ", " : "") + std::to_string(group.shape_min[i]);
        text += group.shape_max[i] > group.shape_min[i] ? "-" + std::to_string(group.shape_max[i]) : "";
    }
    return "[" + text + "]";
}

// 0-3, 7
std::string ranges_text(const std::vector<int32_t> & indices) {
    std::string text;
    for (size_t i = 0; i < indices.size();) {
        size_t last = i;
        while (last + 1 < indices.size() && indices[last + 1] == indices[last] + 1) {
            last++;
        }
        text += (text.empty() ? "" : ", ") + std::to_string(indices[i]);
        text += last > i ? "-" + std::to_string(indices[last]) : "";
        i = last + 1;
    }
    return text.empty() ? "none" : text;
}

std::string choice_text(const MetaReader & meta, const nlohmann::json & recorded, const char * key) {
    return recorded.contains(key) && recorded[key].is_string() ? meta.text({"recorded", key})
                                                               : ranges_text(meta.integers({"recorded", key}));
}

std::string regions_text(const std::vector<Region> & regions) {
    std::string text;
    for (const Region & region : regions) {
        text += (text.empty() ? "" : ", ") + printable(region.name, 60) + " ";
        for (size_t i = 0; i < region.spans.size(); i++) {
            text += concat(i > 0 ? "+" : "", "[", region.spans[i].first, ", ", region.spans[i].second, ")");
        }
    }
    return text;
}

} // namespace

Contents read_contents(const std::string & path) {
    const NpzReader   file   = NpzReader::open(path);
    const NpzMember * member = file.find("meta.json");
    if (member == nullptr) {
        fail(printable(path), ": not a recording: there is no meta.json in it");
    }
    const nlohmann::json meta = read_meta_json(file, *member);
    if (MetaReader(meta, printable(path) + ": meta.json").text({"format"}) != "buoy-recording") {
        fail(printable(path), ": not a recording: meta.json has another format");
    }
    std::map<std::string, size_t> group_of;
    Contents                      contents;
    contents.size = file.size();
    contents.meta = meta;
    for (const NpzMember & each : file.members()) {
        const std::string name    = each.name.substr(0, each.name.find('/'));
        const auto [at, is_fresh] = group_of.emplace(name, contents.groups.size());
        if (is_fresh) {
            contents.groups.push_back({name, 0, 0, "", {}, {}});
        }
        add_member(file, each, contents.groups[at->second]);
    }
    return contents;
}

Unfinished check_unfinished(const std::string & path) {
    if (!ends_with(path, ".part")) {
        return Unfinished::no;
    }
    std::error_code not_a_file;
    if (std::filesystem::file_size(path, not_a_file) != 0) { // else its first bytes are not there yet
        const MappedFile file  = MappedFile::open(path);
        std::string      magic = "PK\x03\x04";
        magic.resize(std::min<uint64_t>(magic.size(), file.size()));
        std::string begin = magic;
        file.read(0, begin.data(), begin.size());
        if (begin != magic) {
            return Unfinished::no;
        }
    }
    const int  fd     = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const bool in_use = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0) {
        close(fd);
    }
    return in_use ? Unfinished::in_use : Unfinished::left;
}

Json contents_json(const Contents & contents) {
    Json groups = Json::array();
    for (const MemberGroup & group : contents.groups) {
        Json json = {{"name", group.name}, {"count", group.n_members}, {"bytes", group.size}};
        if (!group.type.empty()) {
            json["dtype"]     = group.type;
            json["shape_min"] = group.shape_min;
            json["shape_max"] = group.shape_max;
        }
        groups.push_back(json);
    }
    return {{"unfinished", false}, {"bytes", contents.size}, {"members", groups}, {"meta", contents.meta}};
}

std::string contents_text(const std::string & path, const Contents & contents) {
    const nlohmann::json json = contents.meta;
    const MetaReader     meta(json, printable(path) + ": meta.json");
    const size_t         n_positions = meta.count({"n_positions"});
    std::ostringstream   out;
    out.imbue(std::locale::classic());
    const auto line = [&](const char * name, const std::string & text) {
        out << std::left << std::setw(10) << name << printable(text) << "\n";
    };
    line("file", concat(printable(path), ", ", size_text(contents.size), ", ",
                        meta.boolean({"complete"}) ? "complete" : "stopped early"));
    line("model", concat(printable(meta.text({"model", "name"}), 100), meta.text({"model", "name"}).empty() ? "" : ", ",
                         printable(meta.text({"model", "arch"}), 40), ", ", meta.text({"attention"}), " attention, ",
                         meta.count({"model", "n_layer"}), " layers, ", meta.count({"model", "n_head"}), " heads"));
    line("prompt", concat(in_quotes(meta.text({"prompt"}), 60), ", ", meta.count({"n_prompt"}), " tokens"));
    line("run", concat(meta.count({"n_steps"}), " steps, ", n_positions, " positions"));
    std::string taps;
    for (const std::string & tap : meta.texts({"recorded", "taps"})) {
        taps += (taps.empty() ? "" : ", ") + printable(tap, 20);
    }
    const auto & recorded = json["recorded"];
    line("recorded", concat(taps, meta.has({"recorded", "reduce"}) ? "; reduced to " : "",
                            meta.has({"recorded", "reduce"}) ? meta.text({"recorded", "reduce"}) : "", "; ",
                            meta.text({"recorded", "dtype"})));
    for (const char * key : {"steps", "layers", "heads", "rows"}) {
        line(key, choice_text(meta, recorded, key));
    }
    if (const std::vector<Region> regions = meta.regions(n_positions); !regions.empty()) {
        line("regions", regions_text(regions));
    }
    out << "\n";
    for (const MemberGroup & group : contents.groups) {
        out << std::left << std::setw(18) << printable(group.name, 40) << std::right << std::setw(7) << group.n_members
            << "  " << std::left << std::setw(9) << group.type << std::setw(26)
            << (group.type.empty() ? "" : shape_text(group)) << size_text(group.size) << "\n";
    }
    return out.str();
}

namespace {

const char * unfinished_text(Unfinished state) {
    return state == Unfinished::in_use ? "an unfinished recording, being written now"
                                       : "an unfinished recording, left by a run that was killed";
}

} // namespace

std::string recording_text(const std::string & path) {
    if (const Unfinished state = check_unfinished(path); state != Unfinished::no) {
        return concat(printable(path), ": ", unfinished_text(state), ", ", size_text(std::filesystem::file_size(path)),
                      "\n");
    }
    return contents_text(path, read_contents(path));
}

std::string recording_json(const std::string & path) {
    if (const Unfinished state = check_unfinished(path); state != Unfinished::no) {
        return json_line({{"unfinished", true},
                          {"in_use", state == Unfinished::in_use},
                          {"bytes", std::filesystem::file_size(path)}});
    }
    return json_line(contents_json(read_contents(path)));
}

void write_member(const std::string & path, const std::string & member, int64_t index, std::ostream & out) {
    if (const Unfinished state = check_unfinished(path); state != Unfinished::no) {
        fail(printable(path), ": ", unfinished_text(state), "; its members can't be read");
    }
    const NpzReader   file  = NpzReader::open(path);
    const NpzMember & found = file.get(member);
    if (found.name == "meta.json" || found.name == "meta.json.npy") {
        const Json meta = read_meta_json(file, found);
        out << json_text(meta, 2) << "\n";
        return;
    }
    write_csv(file, found, index, out);
}

} // namespace buoy::analysis
