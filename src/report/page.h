#pragma once

#include "report/metric-figures.h"
#include "report/payload.h"

#include <map>
#include <string>
#include <vector>

namespace buoy::report {

// What cmake/embed-page.cmake makes of page/: the texts of its files, scripts joined in order.
struct PageParts {
    const char * html;
    const char * css;
    const char * js;
    const char * js_sha256; // hexadecimal
};

const PageParts & page_parts();

// The hash of its script, as a content security policy has it.
std::string script_hash(const PageParts & parts);

// Replaces {{name}} in the template; what is put in is not looked at again.
std::string fill(const std::string & html, const std::map<std::string, std::string> & parts);

// The HTML page; everything that comes from a recording is escaped.
std::string make_page(const std::string & title, const std::vector<Payload> & payloads,
                      const std::vector<MetricFigure> & figures);

} // namespace buoy::report
