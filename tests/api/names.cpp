// What values are called in flags, JSON and recordings.
#include "buoy/names.h"

#include <cstdio>
#include <string>

void example_names(const std::string &) {
    std::printf("%s\n", buoy::name_of(buoy::reduce_names, buoy::TapReduce::received));
    for (const auto & [name, type] : buoy::kv_type_names) {
        std::printf("%s%s\n", name, type == buoy::ContextParams().type_k ? ", the default" : "");
    }
}
