// A model nobody trained, for tests and benchmarks.
#include "buoy/random-model.h"
#include "buoy/vocab.h"

#include <cstdio>
#include <string>

void example_random_model(const std::string & dir) {
    buoy::RandomModel model = buoy::parse_random_model("sdar:E=64,L=2,H=4,V=300,B=4");
    model.seed              = 7;
    buoy::write_random_model(model, dir + "/random.gguf", true);
    std::printf("%d tokens\n", buoy::Vocab::load(dir + "/random.gguf").size());
}
