#include "buoy/error.h"
#include "convert.h"
#include "io/parse-size.h"
#include "io/size-limit.h"
#include "progress-line.h"

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

std::string shape_text(const std::vector<int64_t> & ne) {
    std::string out = "[";
    for (size_t i = 0; i < ne.size(); ++i) {
        out += buoy::concat(i == 0 ? "" : ", ", ne[i]);
    }
    return out + "]";
}

void print_plan(const buoy::ConvertResult & result) {
    uint64_t n_bits = 0;
    int64_t  n_all  = 0;
    for (const buoy::TensorFate & tensor : result.tensors) {
        int64_t n = 1;
        for (const int64_t dim : tensor.ne) {
            n *= dim;
        }
        n_all += n;
        n_bits += 8 * tensor.n_bytes;
        std::printf("%-36s %-20s %5s -> %-6s %11.3f MB\n", tensor.name.c_str(), shape_text(tensor.ne).c_str(),
                    ggml_type_name(tensor.from), ggml_type_name(tensor.to), static_cast<double>(tensor.n_bytes) / 1e6);
    }
    for (const std::string & path : result.paths) {
        std::printf("%s\n", path.c_str());
    }
    std::printf("%zu tensors, %.3f MB in all, %.2f bits per weight\n", result.tensors.size(),
                static_cast<double>(result.n_bytes) / 1e6, static_cast<double>(n_bits) / static_cast<double>(n_all));
}

void print_errors(const buoy::ConvertResult & result) {
    constexpr size_t SHOWN = 5;
    std::printf("verified %zu tensors; the largest errors:\n", result.errors.size());
    for (size_t i = 0; i < result.errors.size() && i < SHOWN; ++i) {
        const buoy::TensorError & error = result.errors[i];
        std::printf("%-36s %-6s NMSE %.3g, at most %.3g off\n", error.name.c_str(), ggml_type_name(error.type),
                    error.nmse, error.largest);
    }
}

int run(buoy::ConvertOptions & options, bool verbose) {
    buoy::ProgressLine line("writing");
    options.progress = [&](uint64_t done, uint64_t total) {
        line.update(done, total);
        return interrupted == 0;
    };
    options.log = [&](buoy::LogLevel level, const std::string & message) {
        if (verbose || level == buoy::LogLevel::warn || level == buoy::LogLevel::error) {
            line.clear();
            std::fprintf(stderr, "%s%s\n", level == buoy::LogLevel::warn ? "warning: " : "", message.c_str());
        }
    };
    try {
        const buoy::ConvertResult result = buoy::convert_hf(options);
        line.clear();
        if (options.dry_run || verbose) {
            print_plan(result);
        }
        if (options.verify && !options.dry_run) {
            print_errors(result);
        }
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
    std::string          split_max;
    bool                 verbose = false;

    CLI::App app("Converts checkpoints to GGUF and quantises them.", "llama-diffusion-convert");
    app.add_option("input", options.input, "Hugging Face directory or GGUF file")->required();
    app.add_option("-o,--output", options.output, "GGUF file to write, or a directory for one named by convention")
        ->required();
    app.add_option("--outtype", outtype, buoy::outtype_names())->capture_default_str();
    app.add_option("--tensor-type", options.tensor_types,
                   "REGEX=TYPE: the type of tensors with such a name; repeatable")
        ->allow_extra_args(false);
    app.add_option("--imatrix", options.imatrix, "importance matrix to quantise with");
    app.add_option("--split-max-size", split_max, "several files of at most this size (500M, 2G)");
    app.add_flag("--dry-run", options.dry_run, "print what would be written, write nothing");
    app.add_flag("--verify", options.verify, "read the output again and compare it with the input");
    app.add_option("-t,--threads", options.n_threads, "threads, 0: one per core")->check(CLI::Range(0, 1024));
    app.add_flag("--force", options.force, "replace an existing output");
    app.add_flag("-v,--verbose", verbose, "name every tensor");
    try {
        app.parse(argc, argv);
        options.outtype = buoy::parse_outtype(outtype);
        if (!split_max.empty()) {
            options.split_max = buoy::parse_size("--split-max-size", split_max);
        }
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
