#pragma once

#include "tokenizer.h"

#include <string>

namespace buoy {

// Reads tokens, types and scores of a SentencePiece BPE model (tokenizer.model, a protocol buffer); rows of the embedding beyond
// it become [PADn]. Other kinds of model are an Error.
void read_sentencepiece(Tokenizer & out, const std::string & path, int64_t n_vocab);

} // namespace buoy
