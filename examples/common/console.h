#pragma once

#include "buoy/log.h"
#include "flags.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

// Text on standard output, at once; throws buoy::Error where nobody takes it. The only way there: what files and models put into
// the text reaches a pipe or a file as it is, a terminal without control characters (line breaks and tabs stay).
void print_text(const std::string & text);

[[gnu::format(printf, 1, 2)]] void print_line(const char * format, ...); // the same; ends the line

// A line on standard error, printable.
void print_note(const std::string & program, const std::string & message);

// How wide text on standard output may be: as the terminal, 80 where it is none.
size_t output_width();

// What follows tables: an empty line, then each sentence behind an arrow, in lines of that width.
std::string conclusions_text(const std::vector<std::string> & conclusions, size_t width);

// Messages: warnings and what the user asked for on stderr, everything in the log file. The library's settings become flags.
class Console {
public:
    Console(std::string program, const FlagTable & flags, bool verbose, const std::string & log_file = "");

    void log(buoy::LogLevel level, const std::string & message) const;
    // A text that is printable but for the colours that we put in.
    void log_colored(buoy::LogLevel level, const std::string & text) const;

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
