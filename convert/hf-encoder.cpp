#include "hf-encoder.h"

#include "buoy/error.h"
#include "buoy/utf8.h"

#include <algorithm>
#include <cstdio>

namespace buoy {

namespace {

using Json = nlohmann::json;

const std::string MARKER = "▁";
const char *      GPT2   = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

bool flag(const Json & step, const char * key, bool fallback) {
    const auto found = step.find(key);
    return found != step.end() && found->is_boolean() ? found->get<bool>() : fallback;
}

std::string text_of(const Json & step, const char * key) {
    const auto found = step.find(key);
    return found != step.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// GPT-2 writes each byte as a printable character: itself where it is one, else the next free from U+0100 on.
std::string byte_character(unsigned char byte) {
    const auto printable = [](unsigned b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; };
    if (printable(byte)) {
        return encode_utf8(byte);
    }
    uint32_t next = 256;
    for (unsigned b = 0; b < byte; ++b) {
        next += printable(b) ? 0 : 1;
    }
    return encode_utf8(next);
}

std::string replaced(std::string text, const std::string & from, const std::string & to) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
        text.replace(at, from.size(), to);
    }
    return text;
}

} // namespace

HfEncoder::HfEncoder(const HfJson & tokenizer) {
    const Json & model = tokenizer.json()["model"];
    byte_fallback_     = flag(model, "byte_fallback", false);
    ignore_merges_     = flag(model, "ignore_merges", false);
    for (const auto & [text, id] : model["vocab"].items()) {
        ids_[text] = id.get<int32_t>();
    }
    int rank = 0;
    for (const Json & entry : model["merges"]) {
        std::pair<std::string, std::string> pair;
        if (entry.is_array()) {
            pair = {entry[0].get<std::string>(), entry[1].get<std::string>()};
        } else {
            const std::string text = entry.get<std::string>();
            pair                   = {text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)};
        }
        ranks_.emplace(std::move(pair), rank++);
    }
    if (const Json * added = tokenizer.find({"added_tokens"})) {
        for (const Json & entry : *added) {
            if (!flag(entry, "special", false)) {
                added_.emplace_back(entry["content"].get<std::string>(), entry["id"].get<int32_t>());
            }
        }
    }
    std::stable_sort(added_.begin(), added_.end(),
                     [](const auto & a, const auto & b) { return a.first.size() > b.first.size(); });
    if (const Json * step = tokenizer.find({"normalizer"})) {
        read_normalizer(*step);
    }
    if (const Json * step = tokenizer.find({"pre_tokenizer"})) {
        read_pre_tokenizer(*step);
    }
}

// Kinds that we do not convert were refused before this.
void HfEncoder::read_normalizer(const Json & step) {
    const std::string type = text_of(step, "type");
    if (type == "Sequence") {
        for (const Json & part : step["normalizers"]) {
            read_normalizer(part);
        }
    }
    nfc_           = nfc_ || type == "NFC";
    marker_prefix_ = marker_prefix_ || type == "Prepend";
    marker_        = marker_ || type == "Replace";
}

void HfEncoder::read_pre_tokenizer(const Json & step) {
    const std::string type = text_of(step, "type");
    if (type == "Sequence") {
        for (const Json & part : step["pretokenizers"]) {
            read_pre_tokenizer(part);
        }
    } else if (type == "Split" && step["pattern"].contains("Regex")) { // one at spaces finds none
        splits_.emplace_back(text_of(step["pattern"], "Regex"));
    } else if (type == "Digits") {
        splits_.emplace_back("\\p{N}");
    } else if (type == "ByteLevel") {
        bytes_        = true;
        prefix_space_ = prefix_space_ || flag(step, "add_prefix_space", true);
        if (flag(step, "use_regex", true)) {
            splits_.emplace_back(GPT2);
        }
    } else if (type == "Metaspace") {
        const std::string scheme = text_of(step, "prepend_scheme");
        marker_                  = true;
        marker_prefix_           = scheme.empty() ? flag(step, "add_prefix_space", true) : scheme != "never";
        marker_splits_           = flag(step, "split", true);
    }
}

std::string HfEncoder::normalized(std::string text) const {
    if (nfc_) {
        text = utf8_nfc(text);
    }
    if (prefix_space_ && !text.empty() && text[0] != ' ') {
        text.insert(0, " ");
    }
    if (marker_prefix_ && !text.empty()) {
        text.insert(0, MARKER);
    }
    return marker_ ? replaced(std::move(text), " ", MARKER) : text;
}

std::vector<int32_t> HfEncoder::encode(const std::string & text) const {
    std::vector<int32_t> out;
    size_t               begin = 0;
    for (size_t at = 0; at < text.size();) {
        const auto found = std::find_if(added_.begin(), added_.end(), [&](const auto & token) {
            return !token.first.empty() && text.compare(at, token.first.size(), token.first) == 0;
        });
        if (found == added_.end()) {
            ++at;
            continue;
        }
        encode_plain(text.substr(begin, at - begin), out);
        out.push_back(found->second);
        at += found->first.size();
        begin = at;
    }
    encode_plain(text.substr(begin), out);
    return out;
}

void HfEncoder::encode_plain(const std::string & text, std::vector<int32_t> & out) const {
    if (text.empty()) {
        return;
    }
    std::vector<CodePoints>   pieces = {decode_utf8(normalized(text))};
    std::vector<SplitPattern> splits = splits_;
    if (marker_splits_) {
        splits.emplace_back("▁?[^▁]+|▁");
    }
    for (const SplitPattern & split : splits) {
        std::vector<CodePoints> finer;
        for (const CodePoints & piece : pieces) {
            size_t begin = 0;
            for (const size_t end : split.split(piece)) {
                finer.emplace_back(piece.begin() + static_cast<std::ptrdiff_t>(begin),
                                   piece.begin() + static_cast<std::ptrdiff_t>(end));
                begin = end;
            }
        }
        pieces = std::move(finer);
    }
    for (const CodePoints & piece : pieces) {
        std::string bytes;
        for (const uint32_t code : piece) {
            bytes += encode_utf8(code);
        }
        encode_piece(bytes, out);
    }
}

void HfEncoder::encode_piece(const std::string & piece, std::vector<int32_t> & out) const {
    Pieces parts;
    if (bytes_) {
        for (const char byte : piece) {
            parts.push_back(byte_character(static_cast<unsigned char>(byte)));
        }
    } else {
        for (const uint32_t code : decode_utf8(piece)) {
            parts.push_back(encode_utf8(code));
        }
    }
    std::string whole;
    for (const std::string & part : parts) {
        whole += part;
    }
    const auto known = ids_.find(whole);
    if (ignore_merges_ && known != ids_.end()) {
        out.push_back(known->second);
        return;
    }
    for (const std::string & part : merge(std::move(parts))) {
        const auto found = ids_.find(part);
        if (found != ids_.end()) {
            out.push_back(found->second);
            continue;
        }
        for (const char byte : part) {
            char name[8];
            std::snprintf(name, sizeof(name), "<0x%02X>", static_cast<unsigned>(static_cast<unsigned char>(byte)));
            const auto as_byte = byte_fallback_ ? ids_.find(name) : ids_.end();
            out.push_back(as_byte == ids_.end() ? -1 : as_byte->second);
        }
    }
}

bool HfEncoder::makes(const std::string & token) const {
    Pieces parts;
    for (const uint32_t code : decode_utf8(token)) {
        parts.push_back(encode_utf8(code));
    }
    return merge(std::move(parts)).size() == 1;
}

HfEncoder::Pieces HfEncoder::merge(Pieces parts) const {
    while (parts.size() > 1) {
        int    best = -1;
        size_t at   = 0;
        for (size_t i = 0; i + 1 < parts.size(); ++i) {
            const auto found = ranks_.find({parts[i], parts[i + 1]});
            if (found != ranks_.end() && (best < 0 || found->second < best)) {
                best = found->second;
                at   = i;
            }
        }
        if (best < 0) {
            break;
        }
        parts[at] += parts[at + 1];
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    return parts;
}

} // namespace buoy
