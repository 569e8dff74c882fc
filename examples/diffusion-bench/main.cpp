#include "buoy/error.h"
#include "io/printable.h"
#include "io/size-limit.h"
#include "measure.h"
#include "model/random-model.h"
#include "options.h"
#include "table.h"

#include <csignal>
#include <cstdio>
#include <iostream>
#include <new>

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
    const MeasureParams params = {options.repetitions, options.warmup, options.profile};
    Table               table(options);
    for (const Case & one : options.cases) {
        table.add(one, measure_apart(one, params));
    }
    if (options.growth) {
        table.finish_growth();
    }
}

int report(const std::string & text, int exit_code) {
    std::fprintf(stderr, "llama-diffusion-bench: %s\n", text.c_str());
    return exit_code;
}

} // namespace

int main(int argc, char ** argv) {
    buoy::ignore_size_limit_signal();
    std::signal(SIGPIPE, SIG_IGN);
    try {
        run(argc, argv);
        if (!std::cout.flush() || std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
            buoy::fail_runtime("standard output could not be written");
        }
        return 0;
    } catch (const buoy::Error & error) {
        return report(error.what(), error.kind() == buoy::ErrorKind::request ? 1 : 2);
    } catch (const std::bad_alloc &) {
        return report("out of memory", 2);
    } catch (const std::exception & error) {
        return report(buoy::printable(error.what()), 2);
    }
}
