#pragma once

#include "buoy/log.h"
#include "flags.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

// Text on standard output, at once; throws buoy::Error where nobody takes it.
void print_text(const std::string & text);

// How wide text on standard output may be: as the terminal, 80 where it is none.
size_t output_width();

// What follows tables: an empty line, then each sentence behind an arrow, in lines of that width.
std::string conclusions_text(const std::vector<std::string> & conclusions, size_t width);

// Messages: warnings and what the user asked for on stderr, everything in the log file. The library's settings become flags.
class Console {
public:
    Console(std::string program, const FlagTable & flags, bool verbose, const std::string & log_file = "");

    void log(buoy::LogLevel level, const std::string & message) const;

    buoy::LogCallback callback() const {
        return [this](buoy::LogLevel level, const std::string & text) { log(level, text); };
    }

    bool verbose() const { return verbose_; }

private:
    struct Close {
        void operator()(std::FILE * file) const { std::fclose(file); }
    };

    std::string                       program_; // what messages begin with
    const FlagTable &                 flags_;
    bool                              verbose_;
    std::unique_ptr<std::FILE, Close> file_;
};
