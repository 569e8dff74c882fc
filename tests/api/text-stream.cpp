// Text token by token, in whole characters.
#include "buoy/text-stream.h"

#include <cstdio>
#include <string>

void example_text_stream(const std::string & dir) {
    const buoy::Vocab vocab = buoy::Vocab::load(dir + "/model.gguf");
    buoy::TextStream  stream(vocab);
    for (const int32_t id : vocab.encode("café", false, false)) {
        std::printf("%s|", stream.push(id).c_str());
    }
    std::printf("%s\n", stream.finish().c_str());
}
