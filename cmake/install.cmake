# Installs programs, library, headers and the package for find_package(buoy), as cmake/layout.cmake says where.
# Components: runtime is what running needs, dev what compiling against the library needs.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/buoy")
set(ggml_dir    "${BUOY_INSTALL_GGML}")

get_property(programs GLOBAL PROPERTY BUOY_PROGRAMS)
buoy_install_way("${BUOY_INSTALL_PROGRAMS}" "${BUOY_INSTALL_GGML}/lib" program_to_libraries)
if(APPLE)
    set(program_rpath "@loader_path/${program_to_libraries}")
else()
    set(program_rpath "$ORIGIN/${program_to_libraries}")
endif()
if(programs)
    set_target_properties(${programs} PROPERTIES INSTALL_RPATH "${program_rpath}")
    install(TARGETS ${programs} RUNTIME DESTINATION "${BUOY_INSTALL_PROGRAMS}" COMPONENT runtime)
endif()
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/generated/links")
if(BUOY_BACKEND_DL)
    set(linked ${programs})
    if(BUOY_RPC)
        list(APPEND linked llama-rpc-server)
    endif()
    buoy_install_way("${CMAKE_INSTALL_BINDIR}" "${BUOY_INSTALL_PROGRAMS}" bin_to_programs)
    foreach(name IN LISTS linked)
        file(CREATE_LINK "${bin_to_programs}/${name}" "${CMAKE_BINARY_DIR}/generated/links/${name}" SYMBOLIC)
        install(FILES "${CMAKE_BINARY_DIR}/generated/links/${name}" DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT runtime)
    endforeach()
endif()
if(BUOY_VULKAN_BACKEND)
    install(PROGRAMS "${BUOY_VULKAN_BACKEND}" DESTINATION "${BUOY_INSTALL_PROGRAMS}" COMPONENT runtime)
    # it asks for this name, beside itself
    file(CREATE_LINK "${program_to_libraries}/libggml-base.so" "${CMAKE_BINARY_DIR}/generated/links/libggml-base.so" SYMBOLIC)
    install(FILES "${CMAKE_BINARY_DIR}/generated/links/libggml-base.so" DESTINATION "${BUOY_INSTALL_PROGRAMS}"
        COMPONENT runtime)
endif()

install(DIRECTORY models/ DESTINATION "${BUOY_INSTALL_MODELS}" COMPONENT runtime
    FILES_MATCHING PATTERN "*.gguf" PATTERN train EXCLUDE PATTERN hf EXCLUDE)
buoy_install_manuals()
install(FILES examples/simple/llama-simple.1 DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT runtime)
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/buoy" COMPONENT runtime RENAME copyright)

# what all of it consists of
buoy_tree_dir(tree)
set(sbom "${CMAKE_BINARY_DIR}/generated/sbom.cdx.json")
set(sbom_programs "")
foreach(program IN LISTS programs)
    list(APPEND sbom_programs "$<TARGET_FILE:${program}>")
endforeach()
file(GLOB sbom_backend "${BUOY_GGML_PREFIX}/bin/*ggml-cpu*")
list(SUBLIST sbom_backend 0 1 sbom_backend)
install(CODE "
    execute_process(COMMAND \"${CMAKE_COMMAND}\" \"-DSOURCE=${PROJECT_SOURCE_DIR}\" \"-DTREE=${tree}\" \"-DPROGRAMS=${sbom_programs}\"
        \"-DBACKEND=${sbom_backend}\" \"-DVULKAN=${BUOY_VULKAN_BACKEND}\" -DVERSION=${PROJECT_VERSION} \"-DOUTPUT=${sbom}\"
        -P \"${PROJECT_SOURCE_DIR}/cmake/sbom.cmake\" RESULT_VARIABLE result)
    if(NOT result EQUAL 0)
        message(FATAL_ERROR \"buoy: no list of components\")
    endif()" COMPONENT runtime)
install(FILES "${sbom}" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/buoy" COMPONENT runtime)

install(TARGETS buoy EXPORT buoy-targets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT dev)
install(DIRECTORY include/buoy DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT dev)
if(BUOY_BACKEND_DL)
    install(DIRECTORY "${BUOY_GGML_PREFIX}/bin/" DESTINATION "${ggml_dir}/bin" USE_SOURCE_PERMISSIONS COMPONENT runtime)
    install(DIRECTORY "${BUOY_GGML_PREFIX}/lib/" DESTINATION "${ggml_dir}/lib" USE_SOURCE_PERMISSIONS COMPONENT runtime
        FILES_MATCHING PATTERN "*.so*" PATTERN "*.dylib" PATTERN cmake EXCLUDE PATTERN pkgconfig EXCLUDE)
endif()
install(DIRECTORY "${BUOY_GGML_PREFIX}/share/" DESTINATION "${ggml_dir}/share" COMPONENT runtime)
install(FILES "${tree}/vendor/cpp-httplib/LICENSE" DESTINATION "${ggml_dir}/share/licenses/cpp-httplib" COMPONENT runtime)
install(DIRECTORY "${BUOY_GGML_PREFIX}/" DESTINATION "${ggml_dir}" USE_SOURCE_PERMISSIONS COMPONENT dev
    PATTERN "manifest.txt" EXCLUDE)

configure_package_config_file(cmake/buoy-config.cmake.in "${CMAKE_BINARY_DIR}/generated/buoy-config.cmake"
    INSTALL_DESTINATION "${package_dir}" PATH_VARS ggml_dir)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/generated/buoy-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/generated/buoy-config.cmake" "${CMAKE_BINARY_DIR}/generated/buoy-config-version.cmake"
              cmake/buoy-ggml.cmake cmake/Findutf8proc.cmake
    DESTINATION "${package_dir}" COMPONENT dev)
install(EXPORT buoy-targets NAMESPACE buoy:: DESTINATION "${package_dir}" COMPONENT dev)
buoy_record_installation()

if(BUOY_BACKEND_DL)
    include(cmake/cpack.cmake)
endif()
