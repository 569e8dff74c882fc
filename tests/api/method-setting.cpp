// The constants of the decoding methods, and how one is set.
#include "buoy/method-setting.h"
#include "buoy/generate.h"

#include <cstdio>
#include <string>

void example_method_setting(const std::string &) {
    for (const buoy::MethodSettingInfo & setting : buoy::method_settings()) {
        std::printf("%s (%s): %s, default %s\n", setting.name.c_str(), setting.methods.c_str(), setting.help.c_str(),
                    setting.initial.c_str());
    }
    buoy::GenerateParams params;
    buoy::apply_setting(params, "threshold=0.8");
}
