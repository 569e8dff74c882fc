#include "film.h"

#include "buoy/files.h"

#include <algorithm>

void check_film(const CliParams & params) {
    if (params.visual_out.empty()) {
        return;
    }
    try {
        buoy::figure::screencast_format(params.visual_out);
    } catch (const buoy::Error & error) {
        buoy::fail("--diffusion-visual-out ", error.what());
    }
    if (params.chat || !params.logits_out.empty()) {
        buoy::fail("--diffusion-visual-out saves one answer, so it can't be combined with ",
                   params.chat ? "-cnv" : "--logits-out");
    }
    buoy::check_output(params.visual_out, params.force);
}

void Film::attach(buoy::GenerateParams & params) {
    if (session_.params.visual_out.empty()) {
        return;
    }
    text_.emplace(session_.vocab, session_.context.info().traits.mask_id, prompt_, params.n_predict);
    params.on_step = [this, next = params.on_step](const buoy::StepReport & step, const std::vector<int32_t> & tokens) {
        add(step, tokens);
        return !next || next(step, tokens);
    };
}

void Film::add(const buoy::StepReport & step, const std::vector<int32_t> & tokens) {
    std::vector<int32_t> fresh;
    std::vector<int32_t> before = tokens;
    for (const auto & [position, id] : step.committed) {
        fresh.push_back(step.growth ? step.growth->moved(position) : position);
        before[static_cast<size_t>(position)] = session_.context.info().traits.mask_id;
    }
    if (cast_.frames.empty()) {
        cast_.frames.push_back({text_->tokens(before, {}), "before the first step"});
    }
    std::string status = text_->status(step, tokens);
    cast_.frames.push_back({text_->tokens(tokens, fresh), std::move(status)});
}

void Film::save(const Console & console, const Answer & answer) {
    if (cast_.frames.empty()) {
        return;
    }
    const CliParams & params = session_.params;
    cast_.command            = params.command;
    const auto n_steps       = answer.generation.steps.size();
    cast_.frames.push_back(
        {{{answer.text, buoy::figure::TokenState::settled}},
         buoy::concat(n_steps, n_steps == 1 ? " step · " : " steps · ", answer.generation.tokens.size(), " tokens")});
    cast_.milliseconds = std::max(20, visual_delay(params.visual_delay, static_cast<int64_t>(cast_.frames.size())));
    buoy::write_file(params.visual_out, render_screencast(cast_, buoy::figure::screencast_format(params.visual_out)),
                     params.force);
    console.log(buoy::LogLevel::notice, buoy::concat("saved ", n_steps, n_steps == 1 ? " step to " : " steps to ",
                                                     buoy::printable(params.visual_out)));
}
