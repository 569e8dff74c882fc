// Presets: the same run as the flags they stand for, in every family; what is asked for otherwise stays.

#include "buoy/error.h"
#include "buoy/names.h"
#include "buoy/parse.h"
#include "buoy/preset.h"
#include "support/cli.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace buoy;
using namespace buoy::test;

namespace {

constexpr Preset approximate[] = {Preset::balanced, Preset::fast};

std::unique_ptr<Context> context_of(const std::string & arch) {
    ContextParams params = exact_params();
    params.n_ctx         = 128;
    params.n_threads     = 1;
    return random_context(small_model(arch), params);
}

ModelInfo info_of(const std::string & arch, AttentionKind attention = AttentionKind::full) {
    ModelInfo info;
    info.arch             = arch;
    info.n_vocab          = 300;
    info.n_layer          = 2;
    info.traits.mask_id   = 5;
    info.traits.attention = attention;
    return info;
}

GenerateParams preset(Preset preset) {
    GenerateParams params;
    params.n_predict = 24;
    params.preset    = preset;
    return params;
}

bool sets(const AppliedPreset & applied, const std::string & name) {
    return std::any_of(applied.settings.begin(), applied.settings.end(),
                       [&](const std::string & setting) { return setting.rfind(name + "=", 0) == 0; });
}

} // namespace

TEST_CASE("a preset gives the tokens of the settings it stands for, in every family") {
    const std::vector<int32_t> prompt = random_tokens(9, 250);
    size_t                     n_runs = 0;
    for (const PresetFamily & family : preset_families()) {
        for (const std::string & arch : family.archs) {
            const auto context = context_of(arch);
            for (const Preset which : approximate) {
                CAPTURE(arch);
                CAPTURE(std::string(name_of(preset_names, which)));
                const AppliedPreset applied = apply_preset(preset(which), context->info());
                CHECK(applied.note.empty());
                REQUIRE(!applied.settings.empty());
                CHECK(!applied.params.preset);
                GenerateParams by_hand = preset(which);
                by_hand.preset         = {};
                for (const std::string & setting : applied.settings) {
                    apply_setting(by_hand, setting);
                }
                const Generation expected = generate(*context, prompt, by_hand);
                const Generation got      = generate(*context, prompt, preset(which));
                CHECK(got.sequence == expected.sequence);
                REQUIRE(got.steps.size() == expected.steps.size());
                for (size_t i = 0; i < got.steps.size(); i++) {
                    CHECK(got.steps[i].committed == expected.steps[i].committed);
                    CHECK(got.steps[i].computed == expected.steps[i].computed);
                }
                n_runs++;
            }
        }
    }
    CHECK(n_runs >= 10);
}

TEST_CASE("an architecture belongs to one family") {
    std::vector<std::string> all;
    for (const PresetFamily & family : preset_families()) {
        CHECK(!family.found.empty());
        for (const std::string & arch : family.archs) {
            CHECK(std::find(all.begin(), all.end(), arch) == all.end());
            all.push_back(arch);
        }
    }
}

TEST_CASE("exact adds nothing") {
    const AppliedPreset applied = apply_preset(preset(Preset::exact), info_of("llada"));
    CHECK(applied.settings.empty());
    CHECK(applied.note.empty());
}

TEST_CASE("what is set stays, whatever the preset") {
    const ModelInfo info = info_of("llada");
    REQUIRE(sets(apply_preset(preset(Preset::fast), info), "threshold"));
    REQUIRE(sets(apply_preset(preset(Preset::fast), info), "cache"));
    REQUIRE(sets(apply_preset(preset(Preset::fast), info), "algorithm"));
    REQUIRE(sets(apply_preset(preset(Preset::fast), info), "block_length"));
    REQUIRE(sets(apply_preset(preset(Preset::fast), info), "tau_stale"));

    GenerateParams params = preset(Preset::fast);
    params.threshold      = 0.5f;
    AppliedPreset applied = apply_preset(params, info);
    CHECK(applied.params.threshold == 0.5f);
    CHECK(!sets(applied, "threshold"));
    CHECK(sets(applied, "cache")); // the rest is the preset's

    params       = preset(Preset::fast);
    params.cache = DiffusionCache::none;
    applied      = apply_preset(params, info);
    CHECK(applied.params.cache == DiffusionCache::none);
    CHECK(!sets(applied, "tau_stale")); // of a cache that is not used
    CHECK(sets(applied, "threshold"));

    params              = preset(Preset::fast);
    params.block_length = 7;
    CHECK(apply_preset(params, info).params.block_length == 7);

    params                       = preset(Preset::fast);
    params.settings["tau_stale"] = {0.5};
    CHECK(apply_preset(params, info).params.settings.at("tau_stale") == std::vector<double>{0.5});

    // another way to say how many positions a step writes
    params        = preset(Preset::fast);
    params.factor = 1.0f;
    applied       = apply_preset(params, info);
    CHECK(!sets(applied, "threshold"));
    CHECK(!sets(applied, "algorithm"));
    check_params(params, info);
    params       = preset(Preset::fast);
    params.steps = 8;
    CHECK(!sets(apply_preset(params, info), "threshold"));
    params           = preset(Preset::fast);
    params.algorithm = Algorithm::entropy;
    applied          = apply_preset(params, info);
    CHECK(applied.params.algorithm == Algorithm::entropy);
    CHECK(!sets(applied, "threshold"));

    // what a preset's cache can't be combined with goes first
    params           = preset(Preset::fast);
    params.cfg_scale = 1.0f;
    check_params(params, info);
    params           = preset(Preset::fast);
    params.algorithm = Algorithm::dawn;
    check_params(params, info);
    params     = preset(Preset::fast);
    params.eps = 0.01f;
    check_params(params, info);
    params               = preset(Preset::fast);
    params.append_blocks = true;
    check_params(params, info);
    params             = preset(Preset::fast);
    params.auto_length = true;
    check_params(params, info);
    CHECK(apply_preset(params, info).settings.empty());
}

TEST_CASE("a model's own block length goes before a preset's") {
    ModelInfo info                       = info_of("llada");
    info.traits.recommended_block_length = 16;
    CHECK(!sets(apply_preset(preset(Preset::fast), info), "block_length"));
}

TEST_CASE("where nothing is known to be safe, a preset says so and changes nothing") {
    for (const ModelInfo & info : {info_of("llama", AttentionKind::causal), info_of("somebody-elses")}) {
        const AppliedPreset applied = apply_preset(preset(Preset::fast), info);
        CHECK(applied.settings.empty());
        CHECK(contains(applied.note, "preset fast is exact here: " + info.arch));
        CHECK(applied.note.find('\n') == std::string::npos);
    }
}

TEST_CASE("-v prints a preset as flags, which give the same tokens") {
    for (const char * arch : {"llada", "dream", "sdar"}) {
        for (const char * which : {"balanced", "fast"}) {
            CAPTURE(std::string(arch) + " " + which);
            const Args          run    = {"-m", tiny_model(arch), "-p", "A cat sat", "-n", "20", "-s", "1"};
            const ProgramResult said   = cli(run + Args{"--diffusion-preset", which, "-v", "--json", "--no-perf"});
            const std::string   begins = std::string("preset ") + which + ": ";
            const size_t        at     = said.err.find(begins);
            REQUIRE(at != std::string::npos);
            const size_t      from  = at + begins.size();
            const std::string flags = said.err.substr(from, said.err.find('\n', from) - from);
            CHECK(flags.rfind("--diffusion-", 0) == 0);
            nlohmann::json by_preset = nlohmann::json::parse(said.out);
            nlohmann::json by_flags  = cli_json(run + split(flags, " "));
            for (nlohmann::json * json : {&by_preset, &by_flags}) {
                (*json)["settings"].erase("n_ctx"); // whole blocks, where their length is given
            }
            CHECK(by_preset["steps"] == by_flags["steps"]);
            CHECK(by_preset["tokens"] == by_flags["tokens"]);
            CHECK(by_preset["settings"] == by_flags["settings"]);
        }
    }
}

TEST_CASE("an unknown preset is refused with those there are") {
    check_refused(cli({"-m", tiny_model("llada"), "-p", "A", "--diffusion-preset", "quick"}), "exact|balanced|fast");
    GenerateParams params;
    CHECK_THROWS_WITH_AS(apply_setting(params, "preset=quick"), doctest::Contains("exact, balanced, fast"), Error);
}
