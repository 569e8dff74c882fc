#include "buoy/device.h"
#include "buoy/error.h"
#include "buoy/vocab.h"
#include "io/npy.h"
#include "io/printable.h"
#include "options.h"
#include "progress.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <unistd.h>

namespace {

volatile std::sig_atomic_t interrupted = 0;

// The first Ctrl-C ends the generation after the current step, the second one ends the program.
void on_interrupt(int) {
    if (interrupted != 0) {
        _exit(130);
    }
    interrupted = 1;
}

// A mapped file that shrinks, or a disk that fails, is noticed in the middle of a computation: no way back from there.
void on_bus_error(int) {
    constexpr char text[]  = "llama-diffusion-cli: the model file shrank or could not be read while it was in use\n";
    const ssize_t  ignored = write(STDERR_FILENO, text, sizeof(text) - 1);
    static_cast<void>(ignored);
    _exit(2);
}

// Started with a standard stream closed, the next file opened would take its number and get what is printed.
// Writing to the stand-in fails as writing to a closed stream does.
void fill_standard_streams() {
    int fd = -1;
    do {
        fd = open("/dev/null", O_RDONLY);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) {
        close(fd);
    }
}

void print_log(buoy::LogLevel level, const std::string & text) {
    const char * label = level == buoy::LogLevel::warn ? "warning: " : level == buoy::LogLevel::error ? "error: " : "";
    std::fprintf(stderr, "llama-diffusion-cli: %s%s\n", label, text.c_str());
}

void print_devices() {
    for (const buoy::DeviceInfo & device : buoy::list_devices()) {
        std::printf("%-10s %s, %zu MiB, %zu MiB free\n", device.name.c_str(), device.description.c_str(),
                    device.memory_total >> 20, device.memory_free >> 20);
    }
}

std::string read_prompt(const Options & options) {
    if (options.prompt_file.empty()) {
        return options.prompt;
    }
    if (options.prompt_file == "-") {
        return { std::istreambuf_iterator<char>(std::cin), {} };
    }
    std::ifstream in(options.prompt_file, std::ios::binary);
    if (!in || in.peek() == std::ifstream::traits_type::eof()) {
        buoy::fail("prompt file ", buoy::quoted(options.prompt_file), " can't be read or is empty");
    }
    return { std::istreambuf_iterator<char>(in), {} };
}

std::vector<int32_t> make_prompt(const Options & options, const buoy::Vocab & vocab) {
    if (!options.tokens.empty()) {
        return parse_tokens(options.tokens);
    }
    const std::string text = read_prompt(options);
    if (!options.raw && vocab.has_chat_template()) {
        return vocab.encode_chat({ { "user", text } }, true);
    }
    return vocab.encode(text, true, false);
}

void write_logits(const Options & options, buoy::Engine & engine, const std::vector<int32_t> & prompt) {
    if (prompt.empty()) {
        buoy::fail("--logits-out needs a prompt: -p, -f or --tokens");
    }
    buoy::ForwardRequest request;
    request.tokens = prompt;
    request.rows.resize(prompt.size());
    std::iota(request.rows.begin(), request.rows.end(), 0);
    const buoy::ForwardResult & result = engine.forward(request);
    buoy::write_npy(options.logits_out, { static_cast<int64_t>(prompt.size()), engine.info().n_vocab }, result.logits);
}

int generate_text(const Options & options, buoy::Engine & engine, const buoy::Vocab & vocab, const std::vector<int32_t> & prompt) {
    buoy::GenerateParams params = options.generate;
    for (int32_t id = 0; id < vocab.size(); id++) {
        if (vocab.is_end(id)) {
            params.end_ids.push_back(id);
        }
    }
    auto    progress = std::make_unique<Progress>("denoising");
    int64_t n_done   = 0;
    params.on_step   = [&](const buoy::StepReport & step, const std::vector<int32_t> &) {
        n_done += static_cast<int64_t>(step.committed.size());
        progress->update(n_done, params.n_predict);
        return interrupted == 0;
    };
    const buoy::Generation generation = buoy::generate(engine, prompt, params);
    progress.reset();
    const std::string text = vocab.decode(generation.tokens) + "\n";
    std::fwrite(text.data(), 1, text.size(), stdout);
    return generation.stopped ? 130 : 0;
}

int run(int argc, char ** argv) {
    Options options;
    int     exit_code = 0;
    if (!parse_options(argc, argv, options, exit_code)) {
        return exit_code;
    }
    if (options.list_devices) {
        print_devices();
        return 0;
    }
    if (options.model.path.empty()) {
        buoy::fail("no model given: -m FILE.gguf (--help lists the flags)");
    }
    options.model.log = [&](buoy::LogLevel level, const std::string & text) {
        if (options.verbose || level == buoy::LogLevel::warn) {
            print_log(level, text);
        }
    };
    const buoy::Vocab          vocab  = buoy::Vocab::load(options.model.path);
    const std::vector<int32_t> prompt = make_prompt(options, vocab);
    if (options.engine.n_ctx == 0) {
        const int64_t n_needed = static_cast<int64_t>(prompt.size()) + std::max(options.generate.n_predict, 1);
        options.engine.n_ctx   = static_cast<int32_t>(std::min<int64_t>(n_needed, std::numeric_limits<int32_t>::max()));
    }
    const std::unique_ptr<buoy::Engine> engine = buoy::load_engine(options.model, options.engine);
    if (!options.logits_out.empty()) {
        write_logits(options, *engine, prompt);
        return 0;
    }
    return generate_text(options, *engine, vocab, prompt);
}

} // namespace

int main(int argc, char ** argv) {
    fill_standard_streams();
    std::signal(SIGINT, on_interrupt);
    std::signal(SIGTERM, on_interrupt);
    std::signal(SIGBUS, on_bus_error);
    std::signal(SIGPIPE, SIG_IGN);
    try {
        const int exit_code = run(argc, argv);
        if (!std::cout.flush() || std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
            buoy::fail_runtime("standard output could not be written");
        }
        return exit_code;
    } catch (const buoy::Error & error) {
        std::fprintf(stderr, "llama-diffusion-cli: %s\n", error.what());
        return error.kind() == buoy::ErrorKind::request ? 1 : 2;
    } catch (const std::bad_alloc &) {
        std::fputs("llama-diffusion-cli: out of memory\n", stderr);
        return 2;
    } catch (const std::exception & error) {
        std::fprintf(stderr, "llama-diffusion-cli: %s\n", buoy::printable(error.what()).c_str());
        return 2;
    }
}
