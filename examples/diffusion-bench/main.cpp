#include "arch/random-model.h"
#include "buoy/device.h"
#include "io/size-limit.h"
#include "measure.h"
#include "params.h"
#include "run-main.h"
#include "table.h"

#include <csignal>

namespace {

void run(int argc, char ** argv) {
    BenchParams params;
    if (!parse_params(argc, argv, params)) {
        return;
    }
    if (!params.model_spec.empty()) {
        buoy::write_random_model(buoy::parse_random_model(params.model_spec), params.model_path, params.force);
        return;
    }
    if (params.list_devices) {
        buoy::add_rpc_servers(params.rpc);
        print_devices();
        return;
    }
    const MeasureParams measured = {params.repetitions, params.warmup, params.profile};
    Table               table(params);
    for (const Case & one : params.cases) {
        table.add(one, measure_apart(one, measured));
    }
    if (params.growth) {
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
