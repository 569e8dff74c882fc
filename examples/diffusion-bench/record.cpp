#include "record.h"

#include "buoy/record.h"

#include <filesystem>
#include <limits>
#include <string>

#include <unistd.h>

namespace {

struct TemporaryFile {
    std::string path =
        (std::filesystem::temp_directory_path() / ("buoy-bench-" + std::to_string(getpid()) + ".npz")).string();

    ~TemporaryFile() {
        std::error_code ignored;
        std::filesystem::remove(path, ignored);
    }
};

} // namespace

buoy::Generation generate_recorded(buoy::Context & context, const Case & one, const std::vector<int32_t> & prompt) {
    const TemporaryFile file;
    const auto          n_prompt = static_cast<int32_t>(prompt.size());
    buoy::RecordParams  record;
    record.path     = file.path;
    record.force    = true;
    record.reduce   = *one.attn;
    record.regions  = {{"prompt", {{0, n_prompt}}}, {"answer", {{n_prompt, n_prompt + one.generate.n_predict}}}};
    record.max_size = std::numeric_limits<uint64_t>::max();

    buoy::RecordedRun run;
    run.prompt_tokens = prompt;
    run.context       = one.context;
    run.generate      = one.generate;
    buoy::Recorder       recorder(record, context.info(), context.model().vocab(), run);
    buoy::GenerateParams params = one.generate;
    recorder.attach(params);
    buoy::Generation generation = buoy::generate(context, prompt, params);
    recorder.finish();
    return generation;
}
