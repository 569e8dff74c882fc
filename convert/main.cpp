#include "buoy/error.h"
#include "convert.h"
#include "io/size-limit.h"

#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdio>
#include <unistd.h>

namespace {

volatile std::sig_atomic_t interrupted = 0;

void on_interrupt(int) {
    if (interrupted != 0) {
        _exit(130); // the second one at once; the temporary's name shows what it is
    }
    interrupted = 1;
}

// A line that is redrawn in place, only for people.
class ProgressLine {
public:
    bool update(float share) {
        if (isatty(STDERR_FILENO) != 0) {
            const int percent = static_cast<int>(share * 100);
            if (percent != shown_) {
                shown_ = percent;
                std::fprintf(stderr, "\rwriting %3d %%", percent);
                std::fflush(stderr);
            }
        }
        return interrupted == 0;
    }

    void clear() {
        if (shown_ >= 0) {
            std::fprintf(stderr, "\r\033[K");
            shown_ = -1;
        }
    }

private:
    int shown_ = -1;
};

int run(buoy::ConvertOptions & options, bool verbose) {
    ProgressLine line;
    options.progress = [&](float share) { return line.update(share); };
    options.log      = [&](buoy::LogLevel level, const std::string & message) {
        if (verbose || level == buoy::LogLevel::warn || level == buoy::LogLevel::error) {
            line.clear();
            std::fprintf(stderr, "%s%s\n", level == buoy::LogLevel::warn ? "warning: " : "", message.c_str());
        }
    };
    try {
        buoy::convert_hf(options);
        line.clear();
        return 0;
    } catch (const buoy::Error & e) {
        line.clear();
        std::fprintf(stderr, "error: %s\n", e.what());
        return interrupted != 0 ? 130 : e.kind() == buoy::ErrorKind::request ? 1 : 2;
    }
}

} // namespace

int main(int argc, char ** argv) {
    buoy::ConvertOptions options;
    std::string          outtype = "f16";
    bool                 verbose = false;

    CLI::App app("Converts a Hugging Face checkpoint directory to GGUF.", "llama-diffusion-convert");
    app.add_option("input", options.input, "checkpoint directory (config.json, tokenizer.json, *.safetensors)")
        ->required();
    app.add_option("-o,--output", options.output, "GGUF file to write")->required();
    app.add_option("--outtype", outtype, "f32, f16, bf16 or q8_0")->capture_default_str();
    app.add_option("-t,--threads", options.n_threads, "threads, 0: one per core")->check(CLI::Range(0, 1024));
    app.add_flag("--force", options.force, "replace an existing output");
    app.add_flag("-v,--verbose", verbose, "name every tensor");
    try {
        app.parse(argc, argv);
        options.outtype = buoy::parse_outtype(outtype);
    } catch (const CLI::ParseError & e) {
        if (e.get_exit_code() == 0) {
            return app.exit(e); // --help
        }
        std::fprintf(stderr, "error: %s (--help lists the flags)\n", e.what());
        return 1;
    } catch (const buoy::Error & e) {
        std::fprintf(stderr, "error: %s\n", e.what());
        return 1;
    }
    buoy::ignore_size_limit_signal();
    std::signal(SIGINT, on_interrupt);
    std::signal(SIGTERM, on_interrupt);
    return run(options, verbose);
}
