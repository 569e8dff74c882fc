#pragma once

#include "support/gguf-bytes.h"
#include "target.h"

#include <optional>

namespace buoy::fuzz {

// The fields of a file, where it has any that can be read.
std::optional<test::GgufBytes> parsed_gguf(const std::string & input);

// A change that leaves the file sound, so that the damage reaches what is made of it.
void mutate_value(test::GgufBytes::Pair & pair, Random & random);
void mutate_tensor(test::GgufBytes::Tensor & tensor, Random & random);
void mutate_gguf(test::GgufBytes & file, Random & random);
void mutate_gguf(std::string & input, Random & random); // that, or bytes of it

} // namespace buoy::fuzz
