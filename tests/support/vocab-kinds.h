#pragma once

#include "support/gguf-bytes.h"

#include <string>
#include <vector>

namespace buoy::test {

// A tokenizer-only file of each kind that libllama knows, small and correct; the name is tokenizer.ggml.model's, with pre where that
// decides the kind.
std::vector<std::string> vocab_kinds();
GgufBytes                vocab_of(const std::string & kind);

// Sets a key, whatever type it had.
void put_text(GgufBytes & file, const std::string & key, const std::string & value);
void put_texts(GgufBytes & file, const std::string & key, const std::vector<std::string> & values);
void put_ints(GgufBytes & file, const std::string & key, const std::vector<int32_t> & values);
void put_floats(GgufBytes & file, const std::string & key, const std::vector<float> & values);
void put_id(GgufBytes & file, const std::string & name, uint32_t id);

// The entries of an array of strings.
std::vector<std::string> texts_of(GgufBytes & file, const std::string & key);

} // namespace buoy::test
