#pragma once

#include "figure/color.h"

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

namespace buoy::figure {

// A picture as a list of simple things, drawn in order. x grows to the right, y downwards, one unit is a CSS pixel.

struct Point {
    double x = 0, y = 0;
};

struct Box {
    double x = 0, y = 0, w = 0, h = 0;
};

struct Stroke {
    Paint               paint;
    double              width = 1;
    std::vector<double> dash; // lengths of lines and gaps; empty: solid
};

struct Rect {
    Box         box;
    Paint       fill;
    std::string title; // said by a browser that points at it
};

struct Path {
    std::vector<std::vector<Point>> lines;
    bool                            closed = false;
    Paint                           fill; // the interior of each line, by the non-zero rule
    Stroke                          stroke;
    std::string                     title;
    std::string                     cells_name = {}; // of a heat map, where it marks some: hatched, outlined
    std::string                     cells      = {}; // "row,column row,column …", for programs that read the figure
};

enum class Anchor { start, middle, end };

struct Text {
    Point       at; // on the base line
    std::string text;
    double      size   = 12;
    Anchor      anchor = Anchor::start;
    Paint       paint  = Role::text;
    bool        bold   = false;
    bool        upward = false; // turned by a quarter, read from bottom to top
};

// Cells of one colour each; what has alpha 0 shows what lies below.
struct Image {
    Box                box;
    size_t             rows = 0, columns = 0;
    std::vector<Color> cells; // [rows, columns]
};

using Item = std::variant<Rect, Path, Text, Image>;

struct Scene {
    double            width = 0, height = 0;
    std::string       title; // for screen readers
    std::string       description;
    std::vector<Item> items;
};

enum class MarkerShape { circle, square, triangle, diamond, triangle_down, cross };

constexpr size_t marker_shape_count = 6;

// The outline of a marker of that size, to be filled.
std::vector<Point> marker(MarkerShape shape, Point center, double size);

// Diagonal lines over a box, `gap` apart along x; boxes side by side continue each other's lines. At least one line.
std::vector<std::vector<Point>> hatching(const Box & box, double gap);

// The parts of a polyline inside the box.
std::vector<std::vector<Point>> clip_line(const std::vector<Point> & line, const Box & box);

// The area that a text covers, by the metrics of figure/text.h.
Box text_box(const Text & text);

} // namespace buoy::figure
