// The library prints nothing; what it has to say goes to a callback.
#include "buoy/log.h"
#include "buoy/context.h"

#include <cstdio>
#include <string>

void example_log(const std::string & dir) {
    buoy::ModelParams model;
    model.log = [](buoy::LogLevel level, const std::string & text) {
        if (level >= buoy::LogLevel::notice) {
            std::fprintf(stderr, "%s\n", text.c_str());
        }
    };
    model.progress = [](float share) { return share <= 1.0f; }; // false cancels
    buoy::load_model(dir + "/model.gguf", model);
}
