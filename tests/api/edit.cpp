// A generation in which the first position gets no attention.
#include "buoy/edit.h"
#include "buoy/context.h"
#include "buoy/step-count.h"

#include <cstdio>
#include <string>

void example_edit(const std::string & dir) {
    const auto context = buoy::load_context(dir + "/model.gguf", {}, {.n_ctx = 64, .n_threads = 1});
    buoy::check_can_edit(context->model());

    const std::vector<int32_t> prompt = {1, 2, 3};
    buoy::GenerateParams       params;
    params.n_predict              = 8;
    const auto            n_steps = static_cast<int32_t>(buoy::step_count_max(context->info(), prompt, params));
    buoy::AttentionEditor editor({buoy::parse_edit("drop keys=0 layers=0")}, context->info(), {}, 11, n_steps);
    editor.attach(params);
    buoy::generate(*context, prompt, params);
    std::printf("changed in %lld places\n", static_cast<long long>(editor.uses()[0].n_places));
}
