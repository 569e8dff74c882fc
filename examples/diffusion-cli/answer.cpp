#include "answer.h"

#include "buoy/bundled.h"
#include "buoy/generation-json.h"
#include "buoy/step-count.h"
#include "buoy/text-stream.h"
#include "console.h"
#include "interrupt.h"
#include "progress.h"
#include "visual.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <unistd.h>

namespace {

bool is_end(const buoy::GenerateParams & params, int32_t id) {
    return std::find(params.end_ids.begin(), params.end_ids.end(), id) != params.end_ids.end();
}

std::unique_ptr<Visual> make_visual(const Session & session, const std::vector<int32_t> & prompt,
                                    const buoy::GenerateParams & params) {
    const buoy::ModelInfo & info = session.context.info();
    if (!session.params.visual || !info.traits.is_diffusion()) {
        return nullptr;
    }
    const int64_t n_steps = buoy::step_count_max(info, prompt, params);
    return std::make_unique<Visual>(ShownText(session.vocab, info.traits.mask_id, prompt, params.n_predict),
                                    visual_delay(session.params.visual_delay, n_steps));
}

buoy::Generation generate_by_diffusion(const Session & session, const std::vector<int32_t> & prompt,
                                       buoy::GenerateParams params, const Attach & attach, Visual * visual) {
    const int32_t mask_id  = session.context.info().traits.mask_id;
    int64_t       total    = std::count(prompt.begin(), prompt.end(), mask_id) + params.n_predict;
    int64_t       n_done   = 0;
    auto          progress = visual != nullptr ? nullptr : std::make_unique<Progress>("denoising");
    params.on_step         = [&](const buoy::StepReport & step, const std::vector<int32_t> & tokens) {
        for (const auto & [position, id] : step.committed) {
            n_done += id == mask_id ? -1 : 1;
        }
        if (session.context.info().traits.writes_canvases()) { // without masks: canvases that are finished
            n_done = static_cast<int64_t>(tokens.size() - prompt.size());
        }
        if (step.growth) {
            total  = static_cast<int64_t>(tokens.size() - prompt.size());
            n_done = total - std::count(tokens.begin(), tokens.end(), mask_id);
        }
        if (visual != nullptr) {
            visual->update(step, tokens);
        } else {
            progress->update(n_done, total);
        }
        return !interrupted();
    };
    attach(params);
    buoy::Generation out = session.sequence.generate(prompt, params);
    out.decode_ms -= visual != nullptr ? visual->waited_ms() : 0.0;
    return out;
}

buoy::Generation generate_token_by_token(const Session & session, const std::vector<int32_t> & prompt,
                                         buoy::GenerateParams params, Printed printed, const Attach & attach) {
    buoy::TextStream stream(session.vocab);
    auto             reading  = std::make_unique<Progress>("prompt");
    auto             progress = printed == Printed::nothing ? std::make_unique<Progress>("generating") : nullptr;
    params.on_prompt          = [&](float done) {
        reading->update(done);
        return !interrupted();
    };
    params.on_step = [&](const buoy::StepReport & step, const std::vector<int32_t> &) {
        reading.reset();
        if (progress) {
            progress->update(step.step + 1, params.n_predict);
        } else if (!is_end(params, step.committed[0].second)) {
            print_text(stream.push(step.committed[0].second));
        }
        return !interrupted();
    };
    attach(params);
    buoy::Generation out = session.sequence.generate(prompt, params);
    reading.reset();
    if (printed == Printed::text) {
        print_text(stream.finish() + "\n");
    }
    return out;
}

} // namespace

Answer answer(const Session & session, const std::vector<int32_t> & prompt, Printed printed, const Attach & attach,
              const buoy::Infill * infill) {
    const StopsAfter stops("step");
    Answer           out;
    out.params = session.params.generate;
    out.params.n_predict =
        buoy::answer_length(out.params, prompt.size(), session.context.n_ctx(), session.context.info());
    const bool diffusion = session.context.info().traits.is_diffusion();
    const auto visual    = make_visual(session, prompt, out.params);
    out.generation       = diffusion ? generate_by_diffusion(session, prompt, out.params, attach, visual.get())
                                     : generate_token_by_token(session, prompt, out.params, printed, attach);
    out.text             = infill != nullptr ? infill->filled(session.vocab, out.generation.sequence)
                                             : session.vocab.decode(out.generation.tokens);
    if (diffusion && printed == Printed::text) {
        // on a terminal the answer takes the place of the last frame: it is there once
        if (visual && isatty(STDOUT_FILENO) != 0) {
            visual->make_room();
        } else if (visual) {
            visual->finish();
        }
        print_text(out.text + (infill != nullptr && out.text.ends_with('\n') ? "" : "\n"));
    }
    return out;
}

std::optional<std::string> empty_note(const Session & session, const Answer & answer) {
    if (!answer.generation.tokens.empty() || !answer.generation.ended) {
        return std::nullopt;
    }
    const std::string & name    = session.context.info().name;
    const bool          bundled = name == buoy::bundled_diffusion_model || name == buoy::bundled_autoregressive_model;
    if (!session.params.attn.edits.empty()) {
        return "the model ended its text at once";
    }
    return bundled ? "the model ended its text at once. The bundled models only answer questions about numbered "
                     "passages and tell short stories; try: Tell a story about Mira and a fox."
                   : "the model ended its text at once; --ignore-eos makes it go on";
}

std::string timings_text(const Session & session, const buoy::Generation & generation) {
    const auto n_tokens  = static_cast<double>(generation.tokens.size());
    const auto n_forward = static_cast<double>(generation.n_forward);
    char       text[400];
    std::snprintf(text, sizeof(text),
                  "load %.0f ms; prompt %zu tokens, %.0f ms; %zu tokens in %.0f ms, %.1f tokens/s; %lld forwards, %.2f "
                  "tokens per "
                  "forward; seed %llu",
                  session.load_ms, generation.prompt.size(), generation.prompt_ms, generation.tokens.size(),
                  generation.decode_ms, buoy::tokens_per_second(generation),
                  static_cast<long long>(generation.n_forward), n_forward > 0 ? n_tokens / n_forward : 0.0,
                  static_cast<unsigned long long>(session.params.generate.seed));
    return text;
}
