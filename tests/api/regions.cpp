// Named parts of a prompt, to reduce attention to.
#include "buoy/regions.h"

#include <cstdio>
#include <string>

void example_regions(const std::string & dir) {
    const buoy::Vocab  vocab = buoy::Vocab::load(dir + "/model.gguf");
    buoy::RegionSource source;
    source.tokens    = vocab.encode("the cat sat", true, false);
    source.n_predict = 8;
    buoy::RegionSpec cat;
    cat.name = "cat";
    cat.text = "cat";
    for (const buoy::Region & region : buoy::make_regions({cat}, vocab, source)) {
        std::printf("%s from position %d\n", region.name.c_str(), region.spans[0].first);
    }
}
