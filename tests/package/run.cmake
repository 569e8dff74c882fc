# Installs the build into a temporary prefix, moves it, and builds and runs the consumer against it.
cmake_minimum_required(VERSION 3.22)

function(step what)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
    if(NOT result EQUAL 0)
        message(FATAL_ERROR "${what} failed (${result}):\n${text}")
    endif()
    set(STEP_TEXT "${text}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
set(ENV{BUOY_INSTALL_RECORDS} "${WORK}/records")
step("install" "${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/installed")
file(RENAME "${WORK}/installed" "${WORK}/moved") # the package must not remember where it was installed

file(GLOB_RECURSE package_files "${WORK}/moved/*.cmake")
foreach(file IN LISTS package_files)
    file(READ "${file}" text)
    string(FIND "${text}" "${GGML_PREFIX}" position)
    if(NOT position EQUAL -1)
        message(FATAL_ERROR "${file} needs the build cache ${GGML_PREFIX}")
    endif()
endforeach()

# where ggml looks for backends that it loads at run time
set(program_dir "${WORK}/moved/bin")
if(EXISTS "${WORK}/moved/lib/buoy/bin/llama-diffusion-cli")
    set(program_dir "${WORK}/moved/lib/buoy/bin")
endif()
step("configure" "${CMAKE_COMMAND}" -S "${SOURCE}" -B "${WORK}/build" -G "${GENERATOR}"
    "-DCMAKE_PREFIX_PATH=${WORK}/moved" "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_C_COMPILER=${CC}"
    "-DCMAKE_BUILD_TYPE=Release" "-DCMAKE_RUNTIME_OUTPUT_DIRECTORY=${program_dir}")
step("build" "${CMAKE_COMMAND}" --build "${WORK}/build")
step("run" "${program_dir}/consumer")
if(NOT STEP_TEXT MATCHES "^buoy [0-9.]+")
    message(FATAL_ERROR "the consumer said: ${STEP_TEXT}")
endif()
file(REMOVE_RECURSE "${WORK}")
