# The inner loops of our CPU operations, src/kernel/simd, compiled once for each instruction set. Which one is used is asked at
# run time; for another kind of processor a set is empty.

get_filename_component(BUOY_KERNELS_DIR "${CMAKE_CURRENT_LIST_DIR}/../src" ABSOLUTE)

# Adds them to the given libraries.
function(buoy_kernels)
    set(avx2 "")
    set(avxvnni "")
    set(vnni "")
    set(neon "")
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64" AND NOT CMAKE_OSX_ARCHITECTURES MATCHES "arm64")
        set(avx2 -mavx2 -mfma -mf16c)
        set(avxvnni ${avx2} -mavxvnni)
        set(vnni ${avx2} -mavx512f -mavx512bw -mavx512vl -mavx512vnni -mprefer-vector-width=256)
    elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64" AND NOT CMAKE_OSX_ARCHITECTURES MATCHES "x86_64")
        set(neon -march=armv8.2-a+dotprod)
        if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
            list(APPEND neon -fno-schedule-insns) # or loads move up until sums have no registers left
        endif()
    endif()
    foreach(set avx2 avxvnni vnni neon)
        add_library(buoy-kernel-${set} OBJECT "${BUOY_KERNELS_DIR}/kernel/simd/table.cpp")
        target_include_directories(buoy-kernel-${set} PRIVATE "${BUOY_KERNELS_DIR}")
        target_compile_definitions(buoy-kernel-${set} PRIVATE BUOY_KERNEL_TABLE=${set}_table BUOY_KERNEL_SET=${set})
        buoy_own_code(buoy-kernel-${set})
        target_compile_options(buoy-kernel-${set} PRIVATE ${${set}} -ffp-contract=off) # the same numbers from all of them
        if(BUOY_SANITIZE)
            target_compile_options(buoy-kernel-${set} PRIVATE -O1) # a pass takes minutes where nothing is inlined
        endif()
        if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
            target_compile_options(buoy-kernel-${set} PRIVATE -Wno-maybe-uninitialized -Wno-uninitialized) # GCC bug 105593: false for AVX-512's intrinsics
        endif()
        foreach(library IN LISTS ARGN)
            target_sources(${library} PRIVATE $<TARGET_OBJECTS:buoy-kernel-${set}>)
        endforeach()
    endforeach()
    file(GLOB operations "${BUOY_KERNELS_DIR}/kernel/*.cpp")
    set_source_files_properties(${operations} PROPERTIES COMPILE_OPTIONS -ffp-contract=off) # on every processor, too
endfunction()
