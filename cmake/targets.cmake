# What all our own targets have in common.

function(buoy_warnings target)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wconversion)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
        target_compile_options(${target} PRIVATE -Wno-restrict) # GCC bug 105651: false for C++20's std::string
    endif()
    if(BUOY_WERROR)
        target_compile_options(${target} PRIVATE -Werror)
    endif()
endfunction()

function(buoy_own_code target)
    buoy_warnings(${target})
    buoy_harden(${target})
    if(BUOY_SANITIZE)
        # GCC's uninitialised-use warnings are unreliable in instrumented code; the plain build has them on
        target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
        set(flags -O0 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
        target_compile_options(${target} PRIVATE ${flags})
        target_compile_definitions(${target} PRIVATE _GLIBCXX_ASSERTIONS)
        target_link_options(${target} PUBLIC -fsanitize=address,undefined)
    endif()
    if(BUOY_FUZZ)
        target_compile_options(${target} PRIVATE -O1 -g -fsanitize=fuzzer-no-link,address,undefined
            -fno-sanitize-recover=all -fno-omit-frame-pointer)
        target_compile_definitions(${target} PRIVATE _GLIBCXX_ASSERTIONS)
        target_link_options(${target} PUBLIC -fsanitize=address,undefined)
    endif()
    if(BUOY_SANITIZE_THREADS)
        target_compile_options(${target} PRIVATE -O1 -g -fsanitize=thread)
        target_link_options(${target} PUBLIC -fsanitize=thread)
    endif()
endfunction()

# The pinned tree's cpp-httplib, which is a source file there, as objects of ours: under sanitizers, if we are.
function(buoy_httplib name)
    buoy_obtain_tree(tree)
    add_library(${name} OBJECT "${tree}/vendor/cpp-httplib/httplib.cpp")
    target_compile_definitions(${name} PRIVATE CPPHTTPLIB_LISTEN_BACKLOG=512)
    target_compile_options(${name} PRIVATE -w)
    buoy_harden(${name})
    if(BUOY_SANITIZE)
        target_compile_options(${name} PRIVATE -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all)
    endif()
    if(BUOY_SANITIZE_THREADS)
        target_compile_options(${name} PRIVATE -O1 -g -fsanitize=thread)
    endif()
endfunction()

# The page of a room, its scripts joined in this order, as a source file.
function(buoy_embed_page room)
    set(dir "${PROJECT_SOURCE_DIR}/src/${room}/page")
    set(output "${CMAKE_BINARY_DIR}/generated/${room}-page.cpp")
    list(TRANSFORM ARGN PREPEND "${dir}/" OUTPUT_VARIABLE files)
    add_custom_command(OUTPUT "${output}"
        COMMAND "${CMAKE_COMMAND}" "-DROOM=${room}" "-DDIR=${dir}" "-DSCRIPTS=${ARGN}" "-DOUTPUT=${output}"
                -P "${PROJECT_SOURCE_DIR}/cmake/embed-page.cmake"
        DEPENDS ${files} "${dir}/page.html" "${dir}/page.css" "${PROJECT_SOURCE_DIR}/cmake/embed-page.cmake"
        COMMENT "" VERBATIM)
endfunction()

# A program in build/bin. It sees include/, the JSON library and what else it links: neither src/ nor ggml.
function(buoy_program name)
    add_executable(${name} ${ARGN})
    target_include_directories(${name} SYSTEM PRIVATE "${BUOY_GGML_PREFIX}/include/vendor")
    buoy_own_code(${name})
    buoy_backends_beside(${name})
    set_property(GLOBAL APPEND PROPERTY BUOY_PROGRAMS ${name})
endfunction()

# llama-rpc-server comes from the pinned tree, built with ggml.
function(buoy_rpc_server)
    set(server "${BUOY_GGML_PREFIX}/bin/llama-rpc-server${CMAKE_EXECUTABLE_SUFFIX}")
    if(BUOY_RPC)
        set(placed "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/llama-rpc-server${CMAKE_EXECUTABLE_SUFFIX}")
        set(place copy_if_different)
        if(BUOY_BACKEND_DL) # it finds its libraries and backends from where it lies
            set(place create_symlink)
        endif()
        add_custom_target(llama-rpc-server ALL
            COMMAND "${CMAKE_COMMAND}" -E make_directory "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}"
            COMMAND "${CMAKE_COMMAND}" -E ${place} "${server}" "${placed}"
            COMMENT "")
        if(NOT BUOY_BACKEND_DL) # it comes with ggml's libraries then
            install(PROGRAMS "${server}" DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT runtime)
        endif()
    endif()
endfunction()

# With BUOY_BACKEND_DL ggml looks for its backends in the directory of the program that runs.
function(buoy_backends_beside target)
    if(NOT BUOY_BACKEND_DL OR TARGET buoy-backends)
        return()
    endif()
    file(GLOB backends "${BUOY_GGML_PREFIX}/bin/*ggml-*")
    set(links)
    if(BUOY_VULKAN_BACKEND)
        list(APPEND backends "${BUOY_VULKAN_BACKEND}")
        # it wants this name beside itself; a copy would be a second ggml in the process
        set(links COMMAND "${CMAKE_COMMAND}" -E create_symlink "${BUOY_GGML_PREFIX}/lib/libggml-base.so"
            "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/libggml-base.so")
    endif()
    add_custom_target(buoy-backends ALL
        COMMAND "${CMAKE_COMMAND}" -E make_directory "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}"
        COMMAND "${CMAKE_COMMAND}" -E copy_if_different ${backends} "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}"
        ${links}
        COMMENT "")
endfunction()
