#include "decode/schedule.h"

#include <algorithm>

namespace buoy {

namespace {

// One token after the other with an exact K/V store.
class Autoregressive : public Schedule {
public:
    Autoregressive(const DecodeSettings & settings, const GenerateParams & params)
        : params_(params), n_batch_(settings.observed ? std::numeric_limits<int32_t>::max() : params.n_batch) {}

    std::optional<Pass> next(const Canvas & canvas) override {
        if (canvas.is_done() || canvas.end() >= canvas.wanted()) {
            return {};
        }
        Pass pass;
        pass.kv        = KvUse::store;
        pass.from      = canvas.n_stored();
        pass.to        = pass.from + std::min(n_batch_, canvas.end() - pass.from);
        pass.n_stored  = pass.to;
        pass.in_prompt = canvas.end() == canvas.first();
        if (pass.to < canvas.end()) {
            pass.kind     = PassKind::store;
            pass.progress = static_cast<float>(pass.to) / static_cast<float>(canvas.end());
            return pass;
        }
        pass.asked = {canvas.end()};
        pass.due   = 1;
        pass.span  = {canvas.end(), canvas.end() + 1};
        if (params_.thinking_budget && canvas.end() - canvas.first() >= *params_.thinking_budget &&
            !canvas.has_token(params_.end_think_id)) {
            pass.also = {{canvas.end(), params_.end_think_id}};
        }
        return pass;
    }

    int32_t n_final(const Canvas & canvas) const override { return canvas.end(); }

private:
    const GenerateParams & params_;
    const int32_t          n_batch_;
};

} // namespace

std::unique_ptr<Schedule> make_autoregressive(const DecodeSettings & settings, const GenerateParams & params) {
    return std::make_unique<Autoregressive>(settings, params);
}

std::unique_ptr<Schedule> make_schedule(const DecodeSettings & settings, const GenerateParams & params,
                                        const Canvas & canvas) {
    switch (settings.schedule) {
        case ScheduleKind::blocks: return make_blocks(settings, params, canvas);
        case ScheduleKind::timesteps: return make_timesteps(settings, params, canvas);
        case ScheduleKind::block_timesteps: return make_block_timesteps(settings, params, canvas);
        case ScheduleKind::block_causal: return make_block_causal(settings, params, canvas);
        case ScheduleKind::serving: return make_serving(settings, params, canvas);
        case ScheduleKind::two_modes: return make_two_modes(settings, params, canvas);
        case ScheduleKind::canvases: return make_canvases(settings, params);
        case ScheduleKind::window: return make_window(settings, params, canvas);
        case ScheduleKind::growing: return make_growing(settings, params, canvas);
        case ScheduleKind::autoregressive: return make_autoregressive(settings, params);
    }
    return nullptr;
}

} // namespace buoy
