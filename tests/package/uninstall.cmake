# Installs the build into a prefix that has something of others, twice, and uninstalls it: only that is left.
cmake_minimum_required(VERSION 3.22)

function(step)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
    if(NOT result EQUAL 0)
        message(FATAL_ERROR "${ARGN} failed (${result}):\n${text}")
    endif()
endfunction()

file(REMOVE_RECURSE "${WORK}")
set(ENV{BUOY_INSTALL_RECORDS} "${WORK}/records")
set(prefix "${WORK}/a prefix")
file(MAKE_DIRECTORY "${prefix}/share/man/man1" "${prefix}/bin") # an empty one stays as well
file(WRITE "${prefix}/bin/foreign" "")
file(WRITE "${prefix}/include/.hidden" "")
step("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${prefix}")
step("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${prefix}")
step("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/fresh")
foreach(file bin/llama-diffusion-cli share/man/man1/llama-diffusion-cli.1 share/man/man1/llama-simple.1
        share/bash-completion/completions/llama-attention share/zsh/site-functions/_llama-attention
        share/fish/vendor_completions.d/llama-attention.fish)
    if(NOT EXISTS "${prefix}/${file}")
        message(FATAL_ERROR "${file} was not installed")
    endif()
endforeach()
step("${CMAKE_COMMAND}" --build "${BUILD}" --target uninstall)
file(GLOB_RECURSE left LIST_DIRECTORIES true RELATIVE "${prefix}" "${prefix}/*" "${prefix}/*/.hidden")
list(SORT left)
set(expected bin bin/foreign include include/.hidden share share/man share/man/man1)
if(NOT left STREQUAL expected)
    message(FATAL_ERROR "left: ${left}\nexpected: ${expected}")
endif()
if(EXISTS "${WORK}/fresh")
    message(FATAL_ERROR "the prefix that the installation made is still there")
endif()
step("${CMAKE_COMMAND}" --build "${BUILD}" --target uninstall) # nothing to do is no failure
file(REMOVE_RECURSE "${WORK}")
