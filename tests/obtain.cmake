# How the pinned tree is obtained and the cache is checked, with a small made-up tree in place of llama.cpp.
# Run by CTest as `cmake -DGGML_DIR=… -DWORK=… -P obtain.cmake`; a case that must stop runs in a child process.
cmake_minimum_required(VERSION 3.22)

set(CMAKE_BINARY_DIR "${WORK}")
set(BUOY_CACHE_DIR "${WORK}/cache")
include("${GGML_DIR}/build.cmake")

if(CASE STREQUAL "obtain") # the child: the pin and BUOY_LLAMA_CPP_DIR come from the command line
    set(BUOY_PIN_TREE "${PIN_TREE}")
    set(BUOY_PIN_GIT_URL "${PIN_GIT_URL}")
    set(BUOY_PIN_GIT_TAG "v1")
    set(BUOY_NPM "${WORK}/npm")
    buoy_obtain_tree(dir)
    message(STATUS "obtained ${dir}")
    return()
endif()

function(check condition_text)
    if(${ARGN})
    else()
        message(FATAL_ERROR "failed: ${condition_text}")
    endif()
endfunction()

function(git)
    execute_process(COMMAND git -c user.name=t -c user.email=t@example.org -c init.defaultBranch=main ${ARGN}
        RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE errors)
    check("git ${ARGN}: ${errors}" result EQUAL 0)
endfunction()

# Runs the child; sets `text` to all it said and `result` to its exit code.
function(obtain)
    execute_process(COMMAND "${CMAKE_COMMAND}" -DCASE=obtain "-DGGML_DIR=${GGML_DIR}" "-DWORK=${WORK}" "-DPIN_TREE=${tree}"
            "-DPIN_GIT_URL=${WORK}/upstream" ${ARGN} -P "${CMAKE_CURRENT_LIST_FILE}"
        RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
    string(REGEX REPLACE "[ \n]+" " " text "${text}") # CMake wraps long messages
    set(result "${result}" PARENT_SCOPE)
    set(text "${text}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}/upstream/src")
file(WRITE "${WORK}/upstream/src/a.c" "int a;\n")
file(WRITE "${WORK}/upstream/.gitignore" "*.o\n")
git(-C "${WORK}/upstream" init)
git(-C "${WORK}/upstream" add --all)
git(-C "${WORK}/upstream" commit -m one)
git(-C "${WORK}/upstream" tag v1)
buoy_tree_id("${WORK}/upstream" tree)
string(LENGTH "${tree}" length)
check("a tree id has 40 digits: ${tree}" length EQUAL 40)

# a directory that is given: a checkout, an unpacked archive, a changed one, none
obtain("-DBUOY_LLAMA_CPP_DIR=${WORK}/upstream")
check("a given checkout is taken: ${text}" text MATCHES "obtained ${WORK}/upstream")
file(COPY "${WORK}/upstream/" DESTINATION "${WORK}/unpacked" PATTERN .git EXCLUDE)
obtain("-DBUOY_LLAMA_CPP_DIR=${WORK}/unpacked")
check("a given archive is taken: ${text}" text MATCHES "obtained ${WORK}/unpacked")
file(WRITE "${WORK}/unpacked/src/a.c" "int b;\n")
obtain("-DBUOY_LLAMA_CPP_DIR=${WORK}/unpacked")
check("a changed archive stops: ${text}" NOT result EQUAL 0 AND text MATCHES "expected tree ${tree}, found [0-9a-f]+")
obtain("-DBUOY_LLAMA_CPP_DIR=${WORK}/nowhere")
check("a missing directory stops: ${text}" NOT result EQUAL 0 AND text MATCHES "found no readable source tree")

# fetched, cached, damaged, healed; a stand-in for npm "packs" an archive when there is one
file(WRITE "${WORK}/npm" "#!/bin/sh\ncp '${WORK}/packed.tgz' .\n")
file(CHMOD "${WORK}/npm" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
file(MAKE_DIRECTORY "${WORK}/package/llama")
git(-C "${WORK}/upstream" bundle create "${WORK}/${BUOY_PIN_NPM_BUNDLE}" HEAD)
execute_process(COMMAND tar -czf packed.tgz package WORKING_DIRECTORY "${WORK}")
obtain()
check("npm serves: ${text}" result EQUAL 0 AND text MATCHES "out of npm.*obtained" AND NOT text MATCHES "with git")
file(GLOB cached "${WORK}/cache/llama.cpp-*[0-9a-f]") # not its lock
file(REMOVE_RECURSE "${cached}")
file(WRITE "${WORK}/packed.tgz" "no archive")
obtain()
check("a broken npm package, git serves: ${text}" result EQUAL 0 AND text MATCHES "can't be unpacked.*with git.*obtained")
file(REMOVE_RECURSE "${cached}" "${WORK}/packed.tgz")
obtain()
check("npm fails, git serves: ${text}" result EQUAL 0 AND text MATCHES "npm pack .* failed.*with git.*obtained")
obtain()
check("the second time it is cached: ${text}" result EQUAL 0 AND NOT text MATCHES "fetching")
file(GLOB cached "${WORK}/cache/llama.cpp-*[0-9a-f]") # not its lock
file(APPEND "${cached}/src/a.c" "damage\n")
obtain()
check("a changed copy is fetched again: ${text}" result EQUAL 0 AND text MATCHES "damaged.*obtained")
file(REMOVE "${cached}/.git/HEAD")
obtain()
check("a copy that git can't read is fetched again: ${text}" result EQUAL 0 AND text MATCHES "damaged.*obtained")

# what arrives is not what the pin says
set(tree "0123456789012345678901234567890123456789")
obtain()
check("a wrong tree stops: ${text}" NOT result EQUAL 0 AND text MATCHES "what git brought is not the pinned.*expected tree ${tree}")
file(GLOB leftover "${WORK}/cache/llama.cpp-*-0123456789*")
list(FILTER leftover EXCLUDE REGEX "lock$")
check("a wrong tree leaves nothing: ${leftover}" NOT leftover)
obtain("-DPIN_GIT_URL=${WORK}/nowhere")
check("no way left: ${text}" NOT result EQUAL 0 AND text MATCHES "can't get llama.cpp.*npm: .*git: .*BUOY_LLAMA_CPP_DIR")

# the manifest of a built prefix
set(prefix "${WORK}/prefix")
buoy_prefix_state("${prefix}" state)
check("no prefix" state STREQUAL "absent")
file(WRITE "${prefix}/lib/liba.a" "aaaa")
buoy_prefix_state("${prefix}" state)
check("no manifest" state STREQUAL "interrupted")
buoy_manifest_write("${prefix}")
buoy_prefix_state("${prefix}" state)
check("just written" state STREQUAL "good")
file(WRITE "${prefix}/lib/liba.a" "aaab")
buoy_prefix_state("${prefix}" state)
check("one byte differs" state STREQUAL "damaged")
file(REMOVE "${prefix}/lib/liba.a")
buoy_prefix_state("${prefix}" state)
check("a library is gone" state STREQUAL "damaged")

file(REMOVE_RECURSE "${WORK}")
