#pragma once

#include "buoy/figure.h"
#include "figure/scene.h"

namespace buoy::figure {

// Where everything of a figure is.
Scene layout(const Figure & figure);

} // namespace buoy::figure
