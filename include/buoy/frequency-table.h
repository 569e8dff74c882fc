#pragma once

#include "buoy/generate.h"
#include "buoy/vocab.h"

#include <string>

namespace buoy {

// {"num_token": total, "p_baseline_dict": {"id": count, …}}, the format of PC-Sampler's authors.
FrequencyTable load_frequency_table(const std::string & path);
void           save_frequency_table(const FrequencyTable & table, const std::string & path, bool force);

// Adds the tokens of a text.
void count_tokens(FrequencyTable & table, const Vocab & vocab, const std::string & text);

} // namespace buoy
