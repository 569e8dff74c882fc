# Builds one of the pinned tree's own programs, with the options our ggml has, so that benchmarks compare like with like.
include_guard(GLOBAL)
include(${CMAKE_CURRENT_LIST_DIR}/build.cmake)

# Sets `out` to the cached program, building it where needed (once, some minutes: upstream's common library comes with it).
function(buoy_upstream_program target out)
    if(BUOY_BACKEND_DL)
        message(FATAL_ERROR "buoy: upstream's ${target} is built as one file, which BUOY_BACKEND_DL does not give")
    endif()
    buoy_deps_arguments(args)
    list(APPEND args -DGGML_RPC=OFF -DLLAMA_BUILD_COMMON=ON -DLLAMA_BUILD_EXAMPLES=ON -DLLAMA_BUILD_TOOLS=ON
        -DLLAMA_BUILD_SERVER=OFF -DLLAMA_SUBPROCESS=OFF)
    buoy_deps_key("${args}" key)
    buoy_cache_root(root)
    set(dir "${root}/${target}-${key}")
    set(program "${dir}/${target}")
    set(${out} "${program}" PARENT_SCOPE)

    file(LOCK "${dir}.lock" GUARD FUNCTION TIMEOUT 7200)
    if(EXISTS "${program}")
        return()
    endif()
    buoy_obtain_tree(tree)
    set(work "${dir}.build")
    message(STATUS "buoy: building llama.cpp ${BUOY_PIN_VERSION}'s ${target} into ${dir} (once, some minutes on 2 cores)")
    execute_process(
        COMMAND "${CMAKE_COMMAND}" -S "${BUOY_GGML_DIR}" -B "${work}" -G "${CMAKE_GENERATOR}"
                "-DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}" "-DLLAMA_CPP_DIR=${tree}" ${args}
        RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
    if(NOT result EQUAL 0)
        message(FATAL_ERROR "buoy: ${target} can't be configured:\n${text}")
    endif()
    cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
    execute_process(COMMAND "${CMAKE_COMMAND}" --build "${work}" --target ${target} --parallel ${cores} RESULT_VARIABLE result)
    file(GLOB_RECURSE built LIST_DIRECTORIES false "${work}/${target}" "${work}/*/${target}")
    if(NOT result EQUAL 0 OR NOT built)
        message(FATAL_ERROR "buoy: ${target} did not build; the reason is printed above")
    endif()
    # under its name only when whole
    list(GET built 0 built)
    file(MAKE_DIRECTORY "${dir}")
    configure_file("${built}" "${program}.part" COPYONLY)
    file(RENAME "${program}.part" "${program}")
    file(REMOVE_RECURSE "${work}")
endfunction()
