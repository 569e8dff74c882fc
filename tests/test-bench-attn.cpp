// llama-diffusion-bench --attn: what it prints and leaves behind, not how long anything takes.

#include "support/paths.h"
#include "support/random-context.h"
#include "support/run-program.h"
#include "support/text.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>

using namespace buoy;
using namespace buoy::test;

namespace {

ProgramResult bench(const std::string & dir, const std::vector<std::string> & more) {
    static const std::string model = random_gguf({});
    ProgramSpec              spec;
    spec.name          = "llama-diffusion-bench";
    spec.args          = {"-m", model, "-r", "2", "-t", "1", "-p", "4", "-n", "16", "--steps", "8"};
    spec.env["TMPDIR"] = dir;
    spec.args.insert(spec.args.end(), more.begin(), more.end());
    return run_program(spec);
}

} // namespace

TEST_CASE("bench attn: a row for each way of recording, against the plain run; the recordings are gone") {
    const std::string   dir    = temp_dir();
    const ProgramResult result = bench(dir, {"--attn", "off,none,heads,received,regions", "-o", "json"});
    REQUIRE_MESSAGE(result.code == 0, result.err);
    const nlohmann::json rows = nlohmann::json::parse(result.out);
    REQUIRE(rows.size() == 5);
    CHECK(rows[0]["attn_ratio"].is_null());
    for (size_t i = 1; i < rows.size(); i++) {
        CHECK(rows[i]["attn_ratio"] > 0.0);
        CHECK(rows[i]["attn_bytes"].is_number());
        CHECK(rows[i]["forwards"] == rows[0]["forwards"]);
    }
    CHECK(std::filesystem::is_empty(dir));
    CHECK(contains(bench(dir, {"--attn", "heads"}).out, "× plain"));
}

TEST_CASE("bench attn: refused") {
    const ProgramResult unknown = bench(temp_dir(), {"--attn", "sum"});
    CHECK(unknown.code == 1);
    CHECK(contains(unknown.err, "--attn: 'sum' is not one of none|heads|received|regions"));
    const ProgramResult missing = bench(temp_dir() + "/none", {"--attn", "heads"});
    CHECK(missing.code != 0);
    CHECK(missing.is_one_line());
}
