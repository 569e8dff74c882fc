cmake_minimum_required(VERSION 3.22)

# Writes the source file with the texts of a ROOM's page: DIR holds page.html, page.css and SCRIPTS (joined in that order).
set(js "\"use strict\";\n(() => {\n")
foreach(name IN LISTS SCRIPTS)
    file(READ "${DIR}/${name}" text)
    string(APPEND js "${text}")
endforeach()
string(APPEND js "})();\n")
file(READ "${DIR}/page.html" html)
file(READ "${DIR}/page.css" css)
string(SHA256 hash "${js}")
foreach(text IN ITEMS html css js)
    string(FIND "${${text}}" ")page\"" at)
    if(NOT at EQUAL -1)
        message(FATAL_ERROR "${DIR}: the ${text} ends the literal it is put into")
    endif()
endforeach()
file(WRITE "${OUTPUT}"
"#include \"${ROOM}/page.h\"

namespace buoy::${ROOM} {
const report::PageParts & page_parts() {
    static constexpr report::PageParts parts = {
        R\"page(${html})page\",
        R\"page(${css})page\",
        R\"page(${js})page\",
        \"${hash}\"};
    return parts;
}
} // namespace buoy::${ROOM}
")
