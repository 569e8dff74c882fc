// Two lines as an SVG and a PNG file.
#include "buoy/figure.h"
#include "buoy/files.h"

#include <cstdio>
#include <string>

void example_figure(const std::string & dir) {
    buoy::figure::LineChart chart;
    chart.x.label = "layer";
    chart.y.label = "attention";
    chart.series  = {{.name = "first token", .x = {}, .y = {0.5, 0.3, 0.2}, .low = {}, .high = {}},
                     {.name = "others", .x = {}, .y = {0.5, 0.7, 0.8}, .low = {}, .high = {}}};

    buoy::figure::Figure figure;
    figure.title  = "Where attention goes";
    figure.charts = {chart};
    buoy::write_file(dir + "/figure.svg", buoy::figure::render_svg(figure), true);
    buoy::write_file(dir + "/figure.png", buoy::figure::render_png(figure, buoy::figure::Theme::dark), true);
}
