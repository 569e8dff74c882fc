# Builds ggml + libllama once per combination of pin, options, compiler and CPU, and hands out the cached prefix.
include_guard(GLOBAL)
include(${CMAKE_CURRENT_LIST_DIR}/obtain.cmake)
set(BUOY_GGML_DIR "${CMAKE_CURRENT_LIST_DIR}")

# What -march=native means here, so that a home directory shared between machines keeps their builds apart.
function(buoy_native_cpu out)
    execute_process(COMMAND "${CMAKE_C_COMPILER}" -march=native -dM -E -x c /dev/null
        RESULT_VARIABLE result OUTPUT_VARIABLE macros ERROR_QUIET)
    if(NOT result EQUAL 0)
        cmake_host_system_information(RESULT macros QUERY PROCESSOR_DESCRIPTION)
    endif()
    string(SHA256 hash "${macros}")
    set(${out} "${hash}" PARENT_SCOPE)
endfunction()

# The -D arguments of the dependency build; they are also its identity.
function(buoy_deps_arguments out)
    set(args
        -DCMAKE_BUILD_TYPE=Release
        -DCMAKE_INSTALL_LIBDIR=lib
        "-DCMAKE_C_COMPILER=${CMAKE_C_COMPILER}"
        "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}"
        -DGGML_NATIVE=${BUOY_NATIVE}
        -DGGML_CUDA=${BUOY_CUDA}
        -DGGML_METAL=${BUOY_METAL}
        -DGGML_VULKAN=${BUOY_VULKAN}
        -DGGML_RPC=${BUOY_RPC}
        -DBUILD_SHARED_LIBS=${BUOY_BACKEND_DL}
        -DGGML_BACKEND_DL=${BUOY_BACKEND_DL}
        -DGGML_CPU_ALL_VARIANTS=${BUOY_CPU_VARIANTS})
    foreach(name CMAKE_TOOLCHAIN_FILE CMAKE_OSX_ARCHITECTURES CMAKE_OSX_DEPLOYMENT_TARGET CMAKE_OSX_SYSROOT
            CMAKE_CUDA_COMPILER CMAKE_CUDA_ARCHITECTURES)
        if(${name})
            string(REPLACE ";" "\\;" value "${${name}}")
            list(APPEND args "-D${name}=${value}")
        endif()
    endforeach()
    if(CMAKE_CROSSCOMPILING AND NOT CMAKE_TOOLCHAIN_FILE)
        list(APPEND args -DCMAKE_SYSTEM_NAME=${CMAKE_SYSTEM_NAME} -DCMAKE_SYSTEM_PROCESSOR=${CMAKE_SYSTEM_PROCESSOR})
    endif()
    if(BUOY_CUDA)
        # not taken in because it happens to be installed
        list(APPEND args -DGGML_CUDA_NCCL=OFF)
        if(NOT BUOY_BACKEND_DL)
            # nothing of libcuda.so.1 is linked then: the program also starts where there is no driver
            list(APPEND args -DGGML_CUDA_NO_VMM=ON)
        endif()
    endif()
    if(BUOY_HARDEN)
        buoy_hardened_flags(compile link)
        list(JOIN compile " " compile)
        list(JOIN link " " link)
        foreach(language C CXX)
            list(APPEND args "-DCMAKE_${language}_FLAGS=$ENV{${language}FLAGS} ${compile}")
        endforeach()
        foreach(kind EXE SHARED MODULE)
            list(APPEND args "-DCMAKE_${kind}_LINKER_FLAGS=$ENV{LDFLAGS} ${link}")
        endforeach()
    endif()
    list(APPEND args ${BUOY_GGML_ARGS})
    set(${out} "${args}" PARENT_SCOPE)
endfunction()

function(buoy_deps_key args out)
    set(recipe "")
    file(GLOB files "${BUOY_GGML_DIR}/CMakeLists.txt" "${BUOY_GGML_DIR}/*.h" "${BUOY_GGML_DIR}/*.cpp"
        "${BUOY_GGML_DIR}/../examples/common/standard-streams.*")
    foreach(file IN LISTS files)
        file(SHA256 "${file}" hash)
        list(APPEND recipe "${hash}")
    endforeach()
    set(identity "${BUOY_PIN_TREE};${recipe};${args}"
        "${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}" "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
        "${CMAKE_SYSTEM_NAME} ${CMAKE_SYSTEM_PROCESSOR}" "$ENV{CFLAGS}" "$ENV{CXXFLAGS}" "$ENV{LDFLAGS}")
    if(BUOY_NATIVE)
        buoy_native_cpu(cpu)
        list(APPEND identity "${cpu}")
    endif()
    string(SHA256 hash "${identity}")
    string(SUBSTRING "${hash}" 0 12 hash)
    if(BUOY_BACKEND_DL)
        set(kind "dl")
    else()
        set(kind "static")
    endif()
    set(${out} "ggml-${BUOY_PIN_VERSION}-${kind}-${hash}" PARENT_SCOPE)
endfunction()

function(buoy_manifest_text prefix out)
    file(GLOB_RECURSE files LIST_DIRECTORIES false RELATIVE "${prefix}" "${prefix}/*")
    list(REMOVE_ITEM files manifest.txt manifest.txt.part)
    list(SORT files)
    set(text "")
    foreach(file IN LISTS files)
        file(SHA256 "${prefix}/${file}" hash)
        string(APPEND text "${hash}  ${file}\n")
    endforeach()
    set(${out} "${text}" PARENT_SCOPE)
endfunction()

# The manifest is written last: a prefix without one is an interrupted build, one that differs is a damaged build.
function(buoy_prefix_state prefix out)
    if(NOT EXISTS "${prefix}")
        set(${out} "absent" PARENT_SCOPE)
    elseif(NOT EXISTS "${prefix}/manifest.txt")
        set(${out} "interrupted" PARENT_SCOPE)
    else()
        file(READ "${prefix}/manifest.txt" recorded)
        buoy_manifest_text("${prefix}" actual)
        if(actual STREQUAL recorded AND NOT actual STREQUAL "")
            set(${out} "good" PARENT_SCOPE)
        else()
            set(${out} "damaged" PARENT_SCOPE)
        endif()
    endif()
endfunction()

function(buoy_manifest_write prefix)
    buoy_manifest_text("${prefix}" text)
    file(WRITE "${prefix}/manifest.txt.part" "${text}")
    file(RENAME "${prefix}/manifest.txt.part" "${prefix}/manifest.txt")
endfunction()

function(buoy_run_deps_build tree work prefix args out_ok)
    set(${out_ok} FALSE PARENT_SCOPE)
    set(make_args "-DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}")
    execute_process(
        COMMAND "${CMAKE_COMMAND}" -S "${BUOY_GGML_DIR}" -B "${work}" -G "${CMAKE_GENERATOR}" ${make_args}
                "-DLLAMA_CPP_DIR=${tree}" "-DCMAKE_INSTALL_PREFIX=${prefix}" ${args}
        RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
    if(NOT result EQUAL 0)
        message(STATUS "${text}")
        return()
    endif()
    cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
    if(NOT "$ENV{CMAKE_BUILD_PARALLEL_LEVEL}" STREQUAL "")
        set(cores "$ENV{CMAKE_BUILD_PARALLEL_LEVEL}")
    endif()
    set(ENV{NINJA_STATUS} "buoy: ggml + libllama [%f/%t, %es] ")
    execute_process(
        COMMAND sh -c "echo $$ >\"$0\"; exec \"$@\"" "${work}/pid"
                "${CMAKE_COMMAND}" --build "${work}" --parallel ${cores}
        RESULT_VARIABLE result)
    unset(ENV{NINJA_STATUS})
    if(NOT result EQUAL 0)
        return()
    endif()
    file(REMOVE_RECURSE "${prefix}")
    execute_process(COMMAND "${CMAKE_COMMAND}" --install "${work}" RESULT_VARIABLE result OUTPUT_QUIET)
    if(result EQUAL 0)
        set(${out_ok} TRUE PARENT_SCOPE)
    endif()
endfunction()

# A build directory that can be gone on with: this checkout's, Ninja (it knows which outputs are whole), and nobody works
# in it any more (killing CMake alone frees our lock and leaves its child running).
function(buoy_can_resume work out)
    set(${out} FALSE PARENT_SCOPE)
    set(home "")
    if(EXISTS "${work}/CMakeCache.txt")
        file(STRINGS "${work}/CMakeCache.txt" home REGEX "^CMAKE_HOME_DIRECTORY:INTERNAL=")
    endif()
    if(CMAKE_GENERATOR MATCHES "Ninja" AND EXISTS "${work}/pid"
            AND home STREQUAL "CMAKE_HOME_DIRECTORY:INTERNAL=${BUOY_GGML_DIR}")
        execute_process(COMMAND sh -c "read pid <\"$0\" && kill -0 $pid" "${work}/pid"
            RESULT_VARIABLE dead OUTPUT_QUIET ERROR_QUIET)
        if(NOT dead EQUAL 0)
            set(${out} TRUE PARENT_SCOPE)
        endif()
    endif()
endfunction()

# Renamed first: a build that still runs in there loses its files at once instead of writing into the next one.
function(buoy_remove_work work)
    if(EXISTS "${work}")
        string(RANDOM LENGTH 8 suffix)
        file(RENAME "${work}" "${work}.old-${suffix}")
    endif()
    file(GLOB old "${work}.old-*")
    if(old)
        execute_process(COMMAND "${CMAKE_COMMAND}" -E rm -rf ${old} OUTPUT_QUIET ERROR_QUIET)
    endif()
endfunction()

# Sets `out` to a prefix with ggml, libllama, the template engine and their headers, building it where needed.
function(buoy_ggml_prefix out)
    if(BUOY_LLAMA_CPP_DIR)
        buoy_obtain_tree(tree)
    endif()
    buoy_deps_arguments(args)
    buoy_deps_key("${args}" key)
    buoy_cache_root(root)
    set(prefix "${root}/${key}")
    set(work "${root}/${key}.build")
    set(${out} "${prefix}" PARENT_SCOPE)

    # a lock per prefix: who needs another combination, or one that is built, does not wait
    file(LOCK "${prefix}.lock" GUARD FUNCTION TIMEOUT 0 RESULT_VARIABLE locked)
    if(NOT locked EQUAL 0)
        message(STATUS "buoy: another build is making ${prefix}, waiting for it")
        file(LOCK "${prefix}.lock" GUARD FUNCTION TIMEOUT 7200)
    endif()

    buoy_prefix_state("${prefix}" state)
    if(state STREQUAL "good")
        message(STATUS "buoy: using ggml + libllama from ${prefix}")
        return()
    elseif(state STREQUAL "damaged")
        message(STATUS "buoy: ${prefix} is damaged, building it again")
        file(REMOVE_RECURSE "${prefix}")
        buoy_remove_work("${work}")
    endif()

    buoy_obtain_tree(tree)
    buoy_can_resume("${work}" resume)
    if(resume)
        message(STATUS "buoy: going on with an interrupted build of ggml + libllama in ${work}")
        buoy_run_deps_build("${tree}" "${work}" "${prefix}" "${args}" ok)
    else()
        set(ok FALSE)
    endif()
    if(NOT ok)
        message(STATUS "buoy: building ggml + libllama ${BUOY_PIN_VERSION} into ${prefix} (once, about 3 minutes on 2 cores)")
        buoy_remove_work("${work}")
        buoy_run_deps_build("${tree}" "${work}" "${prefix}" "${args}" ok)
    endif()
    if(NOT ok)
        message(FATAL_ERROR "buoy: ggml + libllama did not build; the reason is printed above")
    endif()
    buoy_manifest_write("${prefix}")
    buoy_remove_work("${work}")
    message(STATUS "buoy: ggml + libllama are built")
endfunction()

# A prefix with ggml alone and one CPU backend, for any processor of its kind. shared: as libraries that load other backends.
function(buoy_ggml_alone_prefix out shared)
    set(BUOY_GGML_DIR "${BUOY_GGML_DIR}/alone")
    foreach(name NATIVE CUDA METAL VULKAN RPC CPU_VARIANTS)
        set(BUOY_${name} OFF)
    endforeach()
    set(BUOY_BACKEND_DL ${shared})
    buoy_ggml_prefix(prefix)
    set(${out} "${prefix}" PARENT_SCOPE)
endfunction()
