#include "input-text.h"

#include "buoy/message.h"

#include <vector>

std::string read_to_end(std::istream & in, const std::string & what) {
    std::string       text;
    std::vector<char> bytes(1 << 16);
    while (in.read(bytes.data(), static_cast<std::streamsize>(bytes.size())) || in.gcount() > 0) {
        text.append(bytes.data(), static_cast<size_t>(in.gcount()));
        if (text.size() > input_length_max) {
            buoy::fail(what, " has more than ", input_length_max >> 20, " MiB");
        }
    }
    if (in.bad()) {
        buoy::fail_runtime("cannot read ", what);
    }
    return text;
}
