// The table of algorithms. A sampler that only scores is a row here, and a test.

#include "decode/algorithms.h"

#include "buoy/message.h"
#include "decode/rule.h"
#include "decode/selection.h"

#include <algorithm>
#include <cmath>

namespace buoy {

namespace {

// −p·ln f, at most alpha (arXiv 2508.13021, eq. 5): a confident but frequent token counts for less.
float calibrated(const Candidate & c, const ScoreInput & in) {
    const FrequencyTable & table  = in.params.pc_table;
    const auto             listed = table.counts.find(c.id);
    const double           count  = listed != table.counts.end() ? static_cast<double>(listed->second) : 1.0;
    const double           share  = count / static_cast<double>(table.n_total);
    return std::min(in.params.pc_alpha, static_cast<float>(-static_cast<double>(c.prob) * std::log(share + 1e-9)));
}

float position_aware(const Candidate & c, const ScoreInput & in) {
    return std::exp(-in.params.pc_lambda * static_cast<float>(c.position - in.block.from)) * calibrated(c, in);
}

// (1 − λ)·normalised score + λ·(B − j)/B over all positions of the block.
void mix_position(std::span<Candidate> candidates, const ScoreInput & in) {
    const auto [lowest, highest] =
        std::minmax_element(candidates.begin(), candidates.end(),
                            [](const Candidate & a, const Candidate & b) { return a.score < b.score; });
    const float low = lowest->score, range = highest->score - lowest->score, lambda = in.params.pc_lambda;
    const auto  B = static_cast<float>(in.block.to - in.block.from);
    for (Candidate & c : candidates) {
        const float normalised = range > 0.0f ? (c.score - low) / range : 0.0f;
        c.score = (1.0f - lambda) * normalised + lambda * (B - static_cast<float>(c.position - in.block.from)) / B;
    }
}

float drawn(const Candidate & c, const ScoreInput & in) { return static_cast<float>(in.uniform(c)); }

// Each position on its own, with the step's probability: scores are uniform, so those above 1 − p are a draw with probability p.
int32_t count_drawn(const std::vector<Candidate> & ranked, const CountInput & in) {
    return static_cast<int32_t>(
        std::count_if(ranked.begin(), ranked.end(), [&](const Candidate & c) { return c.score > 1.0f - in.share; }));
}

float confidence(const Candidate & c, const ScoreInput &) { return c.prob; }

float surest(const Candidate & c, const ScoreInput &) { return -c.entropy; }

int32_t count_bounded(const std::vector<Candidate> & ranked, const CountInput & in) {
    return in.block_causal ? count_by_entropy_sum(ranked, in.params.eb_gamma)
                           : count_by_entropy(ranked, in.params.eb_gamma);
}

const AlgorithmParam pc_params[] = {
    {"pc_lambda", "pc's lambda", &GenerateParams::pc_lambda, 0.0, 1e6},
    {"pc_alpha", "pc's alpha", &GenerateParams::pc_alpha, 0.0, 1e6},
};

const AlgorithmParam eb_params[] = {
    {"eb_gamma", "the entropy bound", &GenerateParams::eb_gamma, 0.0, 1e6},
};

const AlgorithmParam joint_params[] = {
    {"repeat_penalty", "the penalty of a repeated token", &GenerateParams::repeat_penalty, 0.0, 1e6},
};

// Ordered like the enumeration.
const AlgorithmRow table[] = {
    {
        .info        = {.algorithm = Algorithm::origin,
                        .name      = "origin",
                        .number    = 0,
                        .help      = "each position at random, with the timestep's probability (Dream)"},
        .score       = drawn,
        .count       = count_drawn,
        .count_least = 0,
        .is_drawn    = true,
        .blocks      = BlockUse::never,
    },
    {
        .info  = {.algorithm = Algorithm::entropy, .name = "entropy", .number = 1, .help = "lowest entropy (Dream)"},
        .score = surest,
    },
    {
        .info  = {.algorithm = Algorithm::margin,
                  .name      = "margin",
                  .number    = 2,
                  .help      = "largest margin between the two most likely tokens (Dream)"},
        .score = [](const Candidate & c, const ScoreInput &) { return c.margin; },
    },
    {
        .info  = {.algorithm = Algorithm::random, .name = "random", .number = 3, .help = "a random position (LLaDA)"},
        .score = drawn,
        .is_drawn = true,
    },
    {
        .info  = {.algorithm = Algorithm::confidence,
                  .name      = "confidence",
                  .number    = 4,
                  .help      = "highest probability of the chosen token (LLaDA, Dream)"},
        .score = confidence,
    },
    {
        .info   = {.algorithm   = Algorithm::pc,
                   .name        = "pc",
                   .help        = "early in the block, and confident about a rare token (arXiv 2508.13021)",
                   .params      = pc_params,
                   .needs_table = true},
        .score  = position_aware,
        .blocks = BlockUse::preferred,
    },
    {
        .info        = {.algorithm   = Algorithm::pc_linear,
                        .name        = "pc-linear",
                        .help        = "calibrated confidence mixed with the position (the same authors)",
                        .params      = pc_params,
                        .needs_table = true},
        .score       = calibrated,
        .score_block = mix_position,
        .blocks      = BlockUse::required,
    },
    {
        .info   = {.algorithm = Algorithm::eb,
                   .name      = "eb",
                   .help      = "lowest entropy, as many as the entropy bound allows (EB-sampler, SDAR)",
                   .params    = eb_params},
        .score  = surest,
        .count  = count_bounded,
        .blocks = BlockUse::required,
    },
    {
        .info  = {.algorithm = Algorithm::sequential, .name = "sequential", .help = "from left to right (SDAR)"},
        .score = [](const Candidate &  c,
                    const ScoreInput & in) { return -static_cast<float>(c.position - in.block.from); },
    },
    {
        .info      = {.algorithm = Algorithm::localleap,
                      .name      = "localleap",
                      .help      = "all above the threshold, and with less confidence those near them (LocalLeap)"},
        .score     = confidence,
        .blocks    = BlockUse::required,
        .rule      = make_localleap,
        .threshold = 0.9f,
    },
    {
        .info         = {.algorithm = Algorithm::klass,
                         .name      = "klass",
                         .help      = "confident positions whose distribution has settled (KLASS)"},
        .score        = confidence,
        .blocks       = BlockUse::required,
        .rule         = make_klass,
        .counts_steps = true,
    },
    {
        .info     = {.algorithm = Algorithm::dawn,
                     .name      = "dawn",
                     .help      = "confident positions that do not attend to each other (DAWN, arXiv 2602.06953)"},
        .score    = confidence,
        .blocks   = BlockUse::required,
        .rule     = make_dawn,
        .sees_all = true,
    },
    {
        .info       = {.algorithm = Algorithm::wino,
                       .name      = "wino",
                       .help      = "many at once; takes back what a shadow block does not confirm (WINO)"},
        .score      = confidence,
        .blocks     = BlockUse::required,
        .rule       = make_wino,
        .threshold  = 0.6f,
        .takes_back = true,
        .sees_all   = true,
    },
    {
        .info      = {.algorithm = Algorithm::low_confidence,
                      .name      = "low-confidence",
                      .help      = "every position surer than the threshold, or the surest (LLaDA2, SGLang)"},
        .score     = confidence,
        .serves    = true,
        .threshold = 0.95f,
    },
    {
        .info      = {.algorithm = Algorithm::joint_threshold,
                      .name      = "joint-threshold",
                      .help      = "the same, and edits what was written (LLaDA2.1, SGLang)",
                      .params    = joint_params},
        .score     = confidence,
        .serves    = true,
        .threshold = 0.5f,
    },
    {
        .info      = {.algorithm = Algorithm::joint_threshold_indel,
                      .name      = "joint-threshold-indel",
                      .help      = "the same, and deletes and inserts positions (LLaDA2.2, SGLang)"},
        .score     = confidence,
        .serves    = true,
        .threshold = 0.5f,
    },
    {
        .info      = {.algorithm = Algorithm::plus_one,
                      .name      = "plus-one",
                      .help      = "all above the threshold, and the surest of the others (ours)"},
        .score     = confidence,
        .blocks    = BlockUse::required,
        .rule      = make_plus_one,
        .threshold = 0.9f,
    },
};

} // namespace

const AlgorithmRow & algorithm_row(Algorithm algorithm) {
    const auto index = static_cast<size_t>(algorithm);
    if (index >= std::size(table) || table[index].info.algorithm != algorithm) {
        fail("algorithm ", static_cast<int32_t>(algorithm), " is unknown, there are ", std::size(table));
    }
    return table[index];
}

std::vector<AlgorithmInfo> algorithms() {
    std::vector<AlgorithmInfo> all;
    for (const AlgorithmRow & row : table) {
        all.push_back(row.info);
    }
    return all;
}

Algorithm parse_algorithm(const std::string & text) {
    std::string known;
    for (const AlgorithmRow & row : table) {
        if (text == row.info.name || (row.info.number >= 0 && text == std::to_string(row.info.number))) {
            return row.info.algorithm;
        }
        known += (known.empty() ? "" : ", ") + std::string(row.info.name);
    }
    fail("unknown diffusion algorithm ", in_quotes(text), "; choose one of ", known,
         ", or 0 to 4, llama.cpp's numbers for the first five");
}

const char * algorithm_name(Algorithm algorithm) { return algorithm_row(algorithm).info.name; }

} // namespace buoy
