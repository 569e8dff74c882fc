// Runs a target without a fuzzing engine: what lies in its corpus, then changes to that and to its seeds, for a while. Any compiler, and
// the sanitizers of the build; libfuzzer.cpp searches with coverage.

#include "target.h"

#include "support/hf-dir.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

namespace {

using namespace buoy::fuzz;

namespace fs = std::filesystem;
using Clock  = std::chrono::steady_clock;

constexpr int    input_seconds_max = 20;   // of computing
constexpr long   memory_growth_max = 1024; // MiB; sanitizers keep what was freed for a while
constexpr size_t input_length_max  = 1u << 20;

struct Args {
    std::string              target;
    double                   seconds = 0;
    uint64_t                 seed    = 1;
    std::string              seeds_to; // a folder
    std::string              last;     // a file that has the input being run, so that a crash leaves it behind
    std::vector<std::string> corpus;   // files
};

// The input being run, in a file: whatever ends this process, it is there.
class LastInput {
public:
    explicit LastInput(const std::string & path) : path_(path) {
        if (!path.empty()) {
            fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        }
    }
    ~LastInput() {
        if (fd_ >= 0) {
            close(fd_);
            fs::remove(path_);
        }
    }
    LastInput(const LastInput &)             = delete;
    LastInput & operator=(const LastInput &) = delete;

    void set(const std::string & input) {
        if (fd_ >= 0 &&
            (pwrite(fd_, input.data(), input.size(), 0) < 0 || ftruncate(fd_, static_cast<off_t>(input.size())) != 0)) {
            std::perror(path_.c_str());
        }
    }

private:
    std::string path_;
    int         fd_ = -1;
};

long peak_memory() { // MiB
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
#ifdef __APPLE__
    return usage.ru_maxrss >> 20;
#else
    return usage.ru_maxrss >> 10;
#endif
}

// The system ends the process, with SIGPROF, where one input takes this long.
void begin_watch() {
    itimerval time       = {};
    time.it_value.tv_sec = input_seconds_max;
    setitimer(ITIMER_PROF, &time, nullptr);
}

int usage() {
    std::fputs("usage: buoy-fuzz TARGET [--seconds N] [--seed N] [--last FILE] [--seeds-to DIR] [FILE…]\n"
               "       buoy-fuzz --list\n",
               stderr);
    return 2;
}

bool parse(int argc, char ** argv, Args & args) {
    for (int i = 1; i < argc; i++) {
        const std::string arg = argv[i];
        const bool        has = i + 1 < argc;
        if (arg == "--seconds" && has) {
            args.seconds = std::atof(argv[++i]);
        } else if (arg == "--seed" && has) {
            args.seed = std::strtoull(argv[++i], nullptr, 10);
        } else if (arg == "--last" && has) {
            args.last = argv[++i];
        } else if (arg == "--seeds-to" && has) {
            args.seeds_to = argv[++i];
        } else if (arg.starts_with("--")) {
            return false;
        } else if (args.target.empty()) {
            args.target = arg;
        } else {
            args.corpus.push_back(arg);
        }
    }
    return !args.target.empty();
}

void fuzz(const Target & target, const Args & args, std::vector<std::string> inputs) {
    LastInput  last(args.last);
    const auto run = [&](const std::string & input) {
        last.set(input);
        begin_watch();
        run_input(target, input);
    };
    for (const std::string & input : inputs) {
        run(input);
    }
    const long before = peak_memory();
    const auto begin  = Clock::now();
    uint64_t   n      = 0;
    for (; std::chrono::duration<double>(Clock::now() - begin).count() < args.seconds; n++) {
        Random      random(args.seed << 32 | n); // one number is one input
        std::string input = inputs[below(random, inputs.size())];
        for (uint64_t left = 1 + below(random, 4); left > 0; left--) {
            target.mutate(input, random);
        }
        if (input.size() <= input_length_max) {
            run(input);
        }
    }
    const long grown = peak_memory() - before;
    std::printf("%s: %zu inputs of the corpus, %llu changed ones, memory grew by %ld MiB\n", target.name.c_str(),
                inputs.size(), static_cast<unsigned long long>(n), grown);
    demand(grown < memory_growth_max, "memory grows by less than 1 GiB");
}

} // namespace

int main(int argc, char ** argv) {
    if (argc == 2 && std::string(argv[1]) == "--list") {
        for (const Target & target : all_targets()) {
            std::printf("%s\n", target.name.c_str());
        }
        return 0;
    }
    Args args;
    if (!parse(argc, argv, args)) {
        return usage();
    }
    const Target * target = find_target(args.target);
    if (target == nullptr) {
        std::fprintf(stderr, "buoy-fuzz: there is no target %s; --list has them\n", args.target.c_str());
        return 2;
    }
    scratch_dir(); // before the seeds make files
    std::vector<std::string> inputs = target->seeds();
    if (!args.seeds_to.empty()) {
        for (size_t i = 0; i < inputs.size(); i++) {
            buoy::test::write_file(args.seeds_to + "/seed-" + std::to_string(i), inputs[i]);
        }
        return 0;
    }
    for (const std::string & path : args.corpus) {
        inputs.push_back(buoy::test::read_file(path));
    }
    fuzz(*target, args, std::move(inputs));
    return 0;
}
