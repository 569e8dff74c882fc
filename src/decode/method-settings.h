#pragma once

#include "buoy/generate.h"

#include <optional>
#include <utility>

namespace buoy {

// The constants of a method as they apply: what was set, else the published default, which may differ for shifted models.
class SettingReader {
public:
    SettingReader(const GenerateParams & params, bool shift) : params_(params), shift_(shift) {}

    bool                  is_set(const char * name) const { return params_.settings.count(name) > 0; }
    double                number(const char * name) const;
    std::optional<double> optional(const char * name) const; // none where it is turned off
    int32_t               whole(const char * name) const { return static_cast<int32_t>(number(name)); }
    bool                  is_on(const char * name) const { return number(name) != 0.0; }
    std::vector<int32_t>  list(const char * name) const; // empty: left open

    std::vector<double> values(const char * name) const;

private:
    const GenerateParams & params_;
    bool                   shift_;
};

// The constants of a method as they apply, as text: "0.07", "1,2", "none", a name.
std::vector<std::pair<std::string, std::string>> constants_of(const std::string & method, const GenerateParams & params,
                                                              bool shift);

// Throws Error for a name that is unknown or a value that is out of range; apply_setting lets nothing else in.
void check_settings(const MethodSettings & settings);

} // namespace buoy
