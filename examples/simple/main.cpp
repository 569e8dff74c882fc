// The library in ten lines: llama-simple MODEL PROMPT, with a GGUF file or the name of a bundled model

#include "buoy/bundled.h"
#include "buoy/context.h"
#include "buoy/error.h"
#include "buoy/generate.h"
#include "buoy/message.h"
#include "buoy/printable.h"
#include "buoy/version.h"
#include "buoy/vocab.h"
#include "standard-streams.h"

#include <cstdio>
#include <string>

int main(int argc, char ** argv) try {
    open_standard_streams();
    if (argc == 2 && std::string(argv[1]) == "--version") {
        std::printf("llama-simple %s\n", buoy::version());
        return 0;
    }
    if (argc != 3) {
        buoy::fail("usage: llama-simple MODEL PROMPT (MODEL: a GGUF file, buoy-mdm or buoy-arm)");
    }
    const auto          model   = buoy::load_model(buoy::ModelFile(buoy::find_model(argv[1])), {});
    const auto          context = model->make_context({});
    const buoy::Vocab & vocab   = model->vocab();
    const auto          prompt =
        vocab.has_chat_template() ? vocab.encode_chat({{"user", argv[2]}}, true) : vocab.encode(argv[2], true, false);

    buoy::GenerateParams params;
    params.n_predict = 64;
    params.end_ids   = vocab.end_ids();
    params.on_step   = [](const buoy::StepReport & step, const std::vector<int32_t> & tokens) {
        std::fprintf(stderr, "step %d wrote %zu of %zu positions\n", step.step, step.committed.size(), tokens.size());
        return true; // false ends the generation
    };
    std::printf("%s\n", buoy::printable_lines(vocab.decode(buoy::generate(*context, prompt, params).tokens)).c_str());
    return 0;
} catch (const buoy::Error & error) {
    std::fprintf(stderr, "llama-simple: %s\n", buoy::printable(error.what()).c_str());
    return error.kind() == buoy::ErrorKind::request ? 1 : 2;
}
