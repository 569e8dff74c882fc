#include "run-main.h"
#include "base/fail.h"

#include "base/printable.h"
#include "buoy/error.h"
#include "io/standard-streams.h"

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>

namespace {

int report(const char * program, const std::string & text, int exit_code) {
    std::fprintf(stderr, "%s: %s\n", program, text.c_str());
    return exit_code;
}

} // namespace

int run_main(const char * program, const std::function<int()> & body) {
    buoy::fill_standard_streams();
    try {
        const int exit_code = body();
        if (!std::cout.flush() || std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
            buoy::fail_runtime("standard output could not be written");
        }
        return exit_code;
    } catch (const buoy::Error & error) {
        if (error.kind() == buoy::ErrorKind::request) {
            return report(program, error.what(), 1);
        }
        report(program, error.what(), 2);
        std::fflush(nullptr);
        std::_Exit(2); // a thread may wait for a lost RPC server; nothing is taken down under it
    } catch (const std::bad_alloc &) {
        return report(program, "out of memory", 2);
    } catch (const std::exception & error) {
        return report(program, buoy::printable(error.what()), 2);
    }
}
