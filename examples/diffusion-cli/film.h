#pragma once

#include "answer.h"
#include "buoy/screencast.h"
#include "console.h"
#include "visual.h"

#include <optional>

// The steps of an answer, for --diffusion-visual-out; nothing without it.
class Film {
public:
    Film(const Session & session, const std::vector<int32_t> & prompt) : session_(session), prompt_(prompt) {}

    void attach(buoy::GenerateParams & params);

    // Writes the file. Every step lasts as long, however long it took to compute; the answer as it is printed comes last.
    void save(const Console & console, const Answer & answer);

private:
    void add(const buoy::StepReport & step, const std::vector<int32_t> & tokens);

    const Session &              session_;
    const std::vector<int32_t> & prompt_;
    std::optional<ShownText>     text_;
    buoy::figure::Screencast     cast_;
};

// Throws buoy::Error where --diffusion-visual-out can't be written.
void check_film(const CliParams & params);
