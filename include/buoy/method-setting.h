#pragma once

#include <map>
#include <string>
#include <vector>

namespace buoy {

struct GenerateParams;

// The constants of a decoding method that were set, by the names that its authors and the published cases give them. Several numbers
// for a list, none where the constant is turned off.
using MethodSettings = std::map<std::string, std::vector<double>>;

// What help and messages say about a constant.
struct MethodSettingInfo {
    std::string name;
    std::string methods; // that take it
    std::string initial; // the default as text
    std::string help;
};

std::vector<MethodSettingInfo> method_settings();

// "NAME=VALUE"; a list is 1,2,3, and "none" turns off what can be off. Throws Error, for an unknown name with the known ones and their
// defaults.
void apply_setting(GenerateParams & params, const std::string & text);
void apply_setting(GenerateParams & params, const std::string & name, const std::string & value);

} // namespace buoy
