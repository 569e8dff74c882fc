#include "arch/random-model.h"
#include "buoy/device.h"
#include "io/size-limit.h"
#include "measure.h"
#include "options.h"
#include "run-main.h"
#include "table.h"

#include <csignal>

namespace {

void run(int argc, char ** argv) {
    Options options;
    if (!parse_options(argc, argv, options)) {
        return;
    }
    if (!options.model_spec.empty()) {
        buoy::write_random_model(buoy::parse_random_model(options.model_spec), options.model_path, options.force);
        return;
    }
    if (options.list_devices) {
        buoy::add_rpc_servers(options.rpc);
        print_devices();
        return;
    }
    const MeasureParams params = {options.repetitions, options.warmup, options.profile};
    Table               table(options);
    for (const Case & one : options.cases) {
        table.add(one, measure_apart(one, params));
    }
    if (options.growth) {
        table.finish_growth();
    }
}

} // namespace

int main(int argc, char ** argv) {
    buoy::ignore_size_limit_signal();
    std::signal(SIGPIPE, SIG_IGN);
    return run_main("llama-diffusion-bench", [&] {
        run(argc, argv);
        return 0;
    });
}
