// Text to tokens and back.
#include "buoy/vocab.h"

#include <cstdio>
#include <string>

void example_vocab(const std::string & dir) {
    const buoy::Vocab          vocab = buoy::Vocab::load(dir + "/model.gguf");
    const std::vector<int32_t> tokens =
        vocab.has_chat_template() ? vocab.encode_chat({{"user", "a cat"}}, true) : vocab.encode("a cat", true, false);
    for (const int32_t id : tokens) {
        std::printf("%d %s\n", id, vocab.piece(id).c_str());
    }
    std::printf("%s\n", vocab.decode(tokens).c_str());
}
