#pragma once

#include "hf-config.h"
#include "split-pattern.h"

#include <map>
#include <unordered_map>

namespace buoy {

// Tokenises by the rules of a tokenizer.json, BPE only, without special tokens: what Hugging Face's tokenizers would do, from the
// file alone and with no code in common with what our programs use. Slow; it is a second opinion.
class HfEncoder {
public:
    explicit HfEncoder(const HfJson & tokenizer);

    std::vector<int32_t> encode(const std::string & text) const;

    // Do the merges make the token of its characters?
    bool makes(const std::string & token) const;

private:
    using Pieces = std::vector<std::string>;

    void        read_normalizer(const nlohmann::json & step);
    void        read_pre_tokenizer(const nlohmann::json & step);
    void        encode_plain(const std::string & text, std::vector<int32_t> & out) const;
    void        encode_piece(const std::string & piece, std::vector<int32_t> & out) const;
    Pieces      merge(Pieces parts) const;
    std::string normalized(std::string text) const;

    std::unordered_map<std::string, int32_t>           ids_;
    std::map<std::pair<std::string, std::string>, int> ranks_;
    std::vector<std::pair<std::string, int32_t>>       added_; // found in the text as they are, longest first
    std::vector<SplitPattern>                          splits_;
    bool                                               nfc_           = false;
    bool                                               bytes_         = false; // byte-level alphabet
    bool                                               prefix_space_  = false;
    bool                                               marker_prefix_ = false; // ▁ before the text
    bool                                               marker_        = false; // ▁ for spaces
    bool                                               marker_splits_ = false;
    bool                                               byte_fallback_ = false;
    bool                                               ignore_merges_ = false;
};

} // namespace buoy
