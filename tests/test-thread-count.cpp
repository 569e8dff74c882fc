#include "base/split-work.h"
#include "engine/pass-work.h"
#include "support/random-context.h"
#include "support/run-program.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <string>

using namespace buoy;
using namespace buoy::test;

namespace {

int32_t threads_of(Context & context, size_t n_tokens) {
    ForwardRequest request;
    request.tokens = random_tokens(n_tokens, 256);
    request.rows   = {0};
    context.forward(request);
    return context.stats().n_threads_last;
}

} // namespace

TEST_CASE("a pass gets as many threads as it is worth, or as many as were asked for") {
    RandomModel model    = small_model("llada");
    model.n_embd         = 512;
    model.n_ff           = 1536;
    ContextParams params = exact_params();
    params.n_threads     = 0;
    const auto automatic = random_context(model, params);
    CHECK(threads_of(*automatic, 2) == 1);
    CHECK(threads_of(*automatic, 256) == core_count()); // 2.4 billion multiply-adds
    CHECK(threads_of(*automatic, 2) == 1);

    params.n_threads = 2;
    const auto two   = random_context(model, params);
    CHECK(threads_of(*two, 2) == 2);
    CHECK(threads_of(*two, 256) == 2);
}

TEST_CASE("few rows of a large model are worth threads: its weights have to be read") {
    CHECK(thread_count_for(pass_cost(1'000'000, 1), 0) == 1);
    CHECK(thread_count_for(pass_cost(8'000'000'000, 1), 0) == core_count());
    CHECK(thread_count_for(pass_cost(1'000'000, 1), 3) == 3);
}

#ifdef __linux__
TEST_CASE("programs wait without long spins, unless the user says how to wait") {
    const char *      before = std::getenv("OMP_WAIT_POLICY"); // CTest sets it
    const std::string policy = before != nullptr ? before : "";
    unsetenv("OMP_WAIT_POLICY");
    const auto waits = [](const std::map<std::string, std::string> & env) {
        ProgramSpec spec;
        spec.name                   = "llama-diffusion-cli";
        spec.args                   = {"--version"};
        spec.env                    = env;
        spec.env["OMP_DISPLAY_ENV"] = "verbose";
        return run_program(spec).err;
    };
    const std::string own = waits({});
    if (own.find("GOMP_SPINCOUNT") == std::string::npos) {
        MESSAGE("this build has no libgomp");
    } else {
        CHECK(own.find("GOMP_SPINCOUNT = '1000'") != std::string::npos);
        CHECK(waits({{"GOMP_SPINCOUNT", "77"}}).find("'1000'") == std::string::npos);
        CHECK(waits({{"OMP_WAIT_POLICY", "active"}}).find("'1000'") == std::string::npos);
    }
    if (before != nullptr) {
        setenv("OMP_WAIT_POLICY", policy.c_str(), 1);
    }
}
#endif
