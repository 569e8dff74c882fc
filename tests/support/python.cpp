#include "support/python.h"

#include "support/gguf-bytes.h"
#include "support/paths.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace buoy::test {

const std::string & numpy_python() {
    static const std::string found = [] {
        for (const char * name : {"python3", "/usr/bin/python3"}) {
            if (std::system((std::string(name) + " -c 'import numpy' >/dev/null 2>&1").c_str()) == 0) {
                return std::string(name);
            }
        }
        return std::string();
    }();
    return found;
}

std::string run_python(const std::string & script, const std::vector<std::string> & args) {
    std::string command = numpy_python() + " " + write_file(temp_dir(), "script.py", script);
    for (const std::string & arg : args) {
        command += " '" + arg + "'";
    }
    FILE *      pipe = popen((command + " 2>&1").c_str(), "r");
    std::string out;
    REQUIRE(pipe != nullptr);
    std::array<char, 4096> buffer{};
    for (size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
        out.append(buffer.data(), n);
    }
    const int status = pclose(pipe);
    CAPTURE(out);
    CHECK(status == 0);
    return out;
}

std::string test_script(const std::string & folder, const std::string & name) {
    std::string text = "import sys\nsys.dont_write_bytecode = True\n";
    for (const std::string & dir : {std::string("metrics"), folder}) {
        text += "sys.path.insert(0, '" + source_dir() + "/tests/" + dir + "')\n";
    }
    return text + "exec(compile(open('" + source_dir() + "/tests/" + folder + "/" + name + "').read(), '" + name +
           "', 'exec'))\n";
}

} // namespace buoy::test
