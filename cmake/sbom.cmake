# Writes what an installation consists of, as CycloneDX JSON: our own release, the pinned tree with what it vendors, the prebuilt backend,
# the models, and the libraries that PROGRAMS and BACKEND load, as the distribution names them. Run by an installation:
#   cmake -DSOURCE=DIR -DTREE=DIR -DPROGRAMS=FILE;… [-DBACKEND=FILE] [-DVULKAN=FILE] -DVERSION=X -DOUTPUT=FILE -P sbom.cmake
# SOURCE_DATE_EPOCH is the time that it names, if set.
cmake_minimum_required(VERSION 3.22)
include("${SOURCE}/ggml/pin.cmake")

set(components "")

# buoy_component(TYPE NAME VERSION [KEY VALUE]…): one more component, with more members as they are
function(buoy_component type name version)
    set(text "    {\n      \"type\": \"${type}\",\n      \"name\": \"${name}\"")
    if(NOT version STREQUAL "")
        string(APPEND text ",\n      \"version\": \"${version}\"")
    endif()
    set(rest ${ARGN})
    while(rest)
        list(POP_FRONT rest key value)
        string(APPEND text ",\n      \"${key}\": ${value}")
    endwhile()
    if(NOT components STREQUAL "")
        string(APPEND components ",\n")
    endif()
    set(components "${components}${text}\n    }" PARENT_SCOPE)
endfunction()

function(buoy_hash_of file out)
    file(SHA256 "${file}" hash)
    set(${out} "[{\"alg\": \"SHA-256\", \"content\": \"${hash}\"}]" PARENT_SCOPE)
endfunction()

function(buoy_license_of id out)
    set(${out} "[{\"license\": {\"id\": \"${id}\"}}]" PARENT_SCOPE)
endfunction()

buoy_license_of(MIT mit)
buoy_component(library llama.cpp "${BUOY_PIN_VERSION}" licenses "${mit}" purl "\"pkg:github/ggml-org/llama.cpp@${BUOY_PIN_GIT_TAG}\""
    externalReferences "[{\"type\": \"vcs\", \"url\": \"${BUOY_PIN_GIT_URL}\", \"comment\": \"git tree ${BUOY_PIN_TREE}\"}]")
file(STRINGS "${TREE}/vendor/nlohmann/json.hpp" lines REGEX "define NLOHMANN_JSON_VERSION_(MAJOR|MINOR|PATCH)")
string(REGEX REPLACE "[^0-9;]" "" numbers "${lines}")
string(REPLACE ";" "." numbers "${numbers}")
buoy_component(library nlohmann-json "${numbers}" licenses "${mit}" purl "\"pkg:github/nlohmann/json@v${numbers}\"")
file(STRINGS "${TREE}/vendor/cpp-httplib/httplib.h" line REGEX "define CPPHTTPLIB_VERSION \"" LIMIT_COUNT 1)
string(REGEX MATCH "[0-9]+(\\.[0-9]+)+" number "${line}")
buoy_component(library cpp-httplib "${number}" licenses "${mit}" purl "\"pkg:github/yhirose/cpp-httplib@v${number}\"")
if(VULKAN)
    string(REGEX REPLACE "^@([^/]*)/(.*)@(.*)$" "pkg:npm/%40\\1/\\2@\\3" purl "${BUOY_PIN_VULKAN_LINUX_X64_PACKAGE}")
    string(REGEX REPLACE ".*@" "" number "${BUOY_PIN_VULKAN_LINUX_X64_PACKAGE}")
    buoy_hash_of("${VULKAN}" hashes)
    buoy_component(library ggml-vulkan "${number}" licenses "${mit}" hashes "${hashes}" purl "\"${purl}\"")
endif()
file(GLOB models "${SOURCE}/models/*.gguf")
list(SORT models)
foreach(model IN LISTS models)
    get_filename_component(name "${model}" NAME_WE)
    buoy_hash_of("${model}" hashes)
    buoy_component(machine-learning-model "${name}" "${VERSION}" hashes "${hashes}")
endforeach()

# the distribution's libraries, by the packages that own them
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${PROGRAMS} LIBRARIES ${BACKEND} RESOLVED_DEPENDENCIES_VAR libraries UNRESOLVED_DEPENDENCIES_VAR missing
    PRE_EXCLUDE_REGEXES "^lib(ggml|llama)" "^ld-")
set(found "")
foreach(library IN LISTS libraries)
    file(REAL_PATH "${library}" real)
    get_filename_component(name "${library}" NAME)
    set(owner "")
    foreach(path IN ITEMS "${library}" "${real}") # the database may know it by another path to the same file
        foreach(way IN ITEMS "${path}" "/usr${path}")
            if(owner STREQUAL "")
                execute_process(COMMAND dpkg-query -S "${way}" OUTPUT_VARIABLE owner ERROR_QUIET RESULT_VARIABLE ignored)
            endif()
        endforeach()
    endforeach()
    string(REGEX REPLACE ":.*" "" owner "${owner}")
    set(version "")
    if(NOT owner STREQUAL "")
        execute_process(COMMAND dpkg-query -W -f "\${Version} \${Architecture}\n" "${owner}" OUTPUT_VARIABLE version ERROR_QUIET)
        string(REGEX REPLACE "\n.*" "" version "${version}")
        set(name "${owner}")
    endif()
    list(APPEND found "${name} ${version}")
endforeach()
list(SORT found)
list(REMOVE_DUPLICATES found)
set(distribution debian)
if(EXISTS /etc/os-release)
    file(STRINGS /etc/os-release line REGEX "^ID=")
    string(REGEX REPLACE "^ID=|\"" "" distribution "${line}")
endif()
foreach(line IN LISTS found)
    string(REPLACE " " ";" parts "${line}")
    list(LENGTH parts n_parts)
    list(GET parts 0 name)
    if(n_parts GREATER 2)
        list(GET parts 1 version)
        list(GET parts 2 arch)
        set(purl "pkg:deb/${distribution}/${name}@${version}?arch=${arch}")
        string(REPLACE "+" "%2B" purl "${purl}")
        buoy_component(library "${name}" "${version}" purl "\"${purl}\"")
    else()
        buoy_component(library "${name}" "")
    endif()
endforeach()

set(time "")
if(NOT "$ENV{SOURCE_DATE_EPOCH}" STREQUAL "")
    string(TIMESTAMP time "%Y-%m-%dT%H:%M:%SZ" UTC) # of SOURCE_DATE_EPOCH
    set(time "    \"timestamp\": \"${time}\",\n")
endif()
file(WRITE "${OUTPUT}" "{
  \"bomFormat\": \"CycloneDX\",
  \"specVersion\": \"1.5\",
  \"version\": 1,
  \"metadata\": {
${time}    \"component\": {
      \"type\": \"application\",
      \"name\": \"buoy\",
      \"version\": \"${VERSION}\"
    }
  },
  \"components\": [
${components}
  ]
}
")
