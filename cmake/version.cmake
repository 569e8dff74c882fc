cmake_minimum_required(VERSION 3.22)

# Writes the source file with the version and the commit it was built from; touches it only when they change.
execute_process(COMMAND git -C "${SOURCE_DIR}" rev-parse --short=10 HEAD
    RESULT_VARIABLE result OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(result EQUAL 0)
    set(text "${VERSION} (${commit})")
else()
    set(text "${VERSION}")
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY CONTENT
"#include \"buoy/version.h\"

namespace buoy {
const char * version() noexcept {
    return \"@text@\";
}
} // namespace buoy
")
