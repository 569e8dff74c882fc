#include "buoy/device.h"
#include "buoy/random-model.h"
#include "console.h"
#include "measure.h"
#include "params.h"
#include "peak.h"
#include "program.h"
#include "table.h"

#include <memory>
#include <optional>
#include <vector>

namespace {

int run(const BenchParams & params) {
    if (!params.model_spec.empty()) {
        buoy::write_random_model(buoy::parse_random_model(params.model_spec), params.model_path, params.force);
        return 0;
    }
    if (params.list_devices) {
        buoy::add_rpc_servers(params.rpc);
        print_devices();
        return 0;
    }
    const MeasureParams measured = {params.repetitions, params.warmup, params.profile};
    Peaks               peaks;
    if (params.peak && (params.cases.empty() || params.format == OutputFormat::md)) {
        std::vector<buoy::MachinePeak> all;
        for (const int32_t n_threads : params.peak_threads) {
            const buoy::MachinePeak & peak = peaks.with(n_threads);
            if (all.empty() || all.back().n_threads != peak.n_threads) {
                all.push_back(peak);
            }
        }
        print_peaks(all, params.format);
    }
    if (params.cases.empty()) {
        return 0;
    }
    if (params.peak && params.format == OutputFormat::md) {
        print_text("\n");
    }
    Table table(params);
    for (const Case & one : params.cases) {
        const Measurement m = measure_apart(one, measured);
        table.add(one, m, params.peak ? std::optional(peaks.with(m.n_threads)) : std::nullopt);
    }
    if (params.growth) {
        table.finish_growth();
    }
    return 0;
}

} // namespace

int main(int argc, char ** argv) {
    Program program(
        "llama-diffusion-bench",
        "Measures how fast models generate and prints one table, a row for every combination of the listed values.",
        Program::Interrupt::at_once);
    const auto params = std::make_shared<BenchParams>();
    Command &  bench  = program.add("", "measure");
    add_flags(bench.flags, *params);
    bench.run = [params](const Command &) {
        settle(*params);
        return run(*params);
    };
    return program.main(argc, argv);
}
