// Token frequencies of a text, for Algorithm::pc.
#include "buoy/frequency-table.h"

#include <cstdio>
#include <string>

void example_frequency_table(const std::string & dir) {
    const buoy::Vocab    vocab = buoy::Vocab::load(dir + "/model.gguf");
    buoy::FrequencyTable table;
    buoy::count_tokens(table, vocab, "the cat sat on the mat");
    buoy::save_frequency_table(table, dir + "/frequencies.json", true);

    buoy::GenerateParams params;
    params.algorithm = buoy::Algorithm::pc;
    params.pc_table  = buoy::load_frequency_table(dir + "/frequencies.json");
    std::printf("%lld tokens\n", static_cast<long long>(params.pc_table.n_total));
}
