#pragma once

#include "buoy/error.h"
#include "buoy/model.h"
#include "interrupt.h"
#include "progress.h"

// What `load` makes of the parameters, with a bar on a terminal. Null where Ctrl-C came first.
template <typename Load> auto load_with_bar(buoy::ModelParams params, const Load & load) -> decltype(load(params)) {
    Progress progress("loading");
    params.progress = [&](float share) {
        progress.update(share);
        return !interrupted();
    };
    try {
        auto loaded = interrupted() ? nullptr : load(params);
        return interrupted() ? nullptr : std::move(loaded);
    } catch (const buoy::Error &) {
        if (interrupted()) {
            return nullptr;
        }
        throw;
    }
}
