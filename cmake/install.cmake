# Installs programs, library, headers and the package for find_package(buoy).
# ggml + libllama go into a folder of their own, so that they meet no other copy in the same prefix.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/buoy")
set(ggml_dir    "${CMAKE_INSTALL_LIBDIR}/buoy")

get_property(programs GLOBAL PROPERTY BUOY_PROGRAMS)
file(RELATIVE_PATH bin_to_ggml "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}/buoy/lib")
if(APPLE)
    set(program_rpath "@loader_path/${bin_to_ggml}")
else()
    set(program_rpath "$ORIGIN/${bin_to_ggml}")
endif()
if(programs)
    set_target_properties(${programs} PROPERTIES INSTALL_RPATH "${program_rpath}")
    install(TARGETS ${programs} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
if(BUOY_BACKEND_DL)
    install(DIRECTORY "${BUOY_GGML_PREFIX}/bin/" DESTINATION "${CMAKE_INSTALL_BINDIR}" FILES_MATCHING PATTERN "*ggml-*")
endif()

install(DIRECTORY models/ DESTINATION "${CMAKE_INSTALL_DATADIR}/buoy/models" FILES_MATCHING PATTERN "*.gguf" PATTERN train EXCLUDE)

install(TARGETS buoy EXPORT buoy-targets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY include/buoy DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(DIRECTORY "${BUOY_GGML_PREFIX}/" DESTINATION "${ggml_dir}" PATTERN "manifest.txt" EXCLUDE)

configure_package_config_file(cmake/buoy-config.cmake.in "${CMAKE_BINARY_DIR}/generated/buoy-config.cmake"
    INSTALL_DESTINATION "${package_dir}" PATH_VARS ggml_dir)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/generated/buoy-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/generated/buoy-config.cmake" "${CMAKE_BINARY_DIR}/generated/buoy-config-version.cmake"
              cmake/buoy-ggml.cmake cmake/Findutf8proc.cmake
    DESTINATION "${package_dir}")
install(EXPORT buoy-targets NAMESPACE buoy:: DESTINATION "${package_dir}")
