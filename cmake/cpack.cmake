# Packages of what running needs: an archive that can be unpacked anywhere, and a Debian package.
# `cmake --build <dir> --target package`, or scripts/package.sh, which also tries them out.
string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" package_system)
set(CPACK_PACKAGE_NAME                buoy)
set(CPACK_PACKAGE_VENDOR              "buoy authors")
set(CPACK_PACKAGE_CONTACT             "buoy authors <buoy@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_FILE_NAME           "buoy-${PROJECT_VERSION}-${package_system}")
set(CPACK_RESOURCE_FILE_LICENSE       "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_STRIP_FILES                 ON)
set(CPACK_COMPONENTS_GROUPING         ALL_COMPONENTS_IN_ONE)
set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL   ON)
set(CPACK_DEB_COMPONENT_INSTALL       ON)
set(CPACK_GENERATOR                   TGZ)
find_program(BUOY_DPKG_SHLIBDEPS dpkg-shlibdeps)
mark_as_advanced(BUOY_DPKG_SHLIBDEPS)
if(BUOY_DPKG_SHLIBDEPS)
    list(APPEND CPACK_GENERATOR DEB)
endif()

# An archive has no dependencies to name: libraries that a bare system lacks come with it. A Debian package names them.
set(CPACK_COMPONENTS_ALL runtime bundled)
set(CPACK_PROJECT_CONFIG_FILE "${PROJECT_SOURCE_DIR}/cmake/cpack-options.cmake")
set(CPACK_PACKAGING_INSTALL_PREFIX "/")

set(CPACK_DEBIAN_FILE_NAME         DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION   science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${BUOY_GGML_PREFIX}/lib")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS  "mesa-vulkan-drivers")

# libgomp, zlib, utf8proc, and libedit with what it needs, with their terms; not libstdc++, which graphics drivers bring into the process as well
file(GLOB bundling_backends "${BUOY_GGML_PREFIX}/bin/*ggml-cpu*")
list(GET bundling_backends 0 bundling_backend)
set(bundling_programs "")
foreach(program IN LISTS programs)
    string(APPEND bundling_programs " \"$<TARGET_FILE:${program}>\"")
endforeach()
install(CODE "
    file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${bundling_programs} LIBRARIES \"${bundling_backend}\"
        RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing
        PRE_INCLUDE_REGEXES \"^lib(gomp|z|utf8proc|edit|bsd|md|tinfo)\\\\.so\" PRE_EXCLUDE_REGEXES \".*\")
    set(to \"\${CMAKE_INSTALL_PREFIX}/${BUOY_INSTALL_GGML}\")
    foreach(library IN LISTS found)
        file(INSTALL \"\${library}\" DESTINATION \"\${to}/lib\" TYPE SHARED_LIBRARY FOLLOW_SYMLINK_CHAIN)
        get_filename_component(name \"\${library}\" NAME_WE)
        file(REAL_PATH \"\${library}\" real)
        execute_process(COMMAND dpkg-query -S \"\${real}\" OUTPUT_VARIABLE owner ERROR_QUIET)
        string(REGEX REPLACE \":.*\" \"\" owner \"\${owner}\")
        if(EXISTS \"/usr/share/doc/\${owner}/copyright\")
            file(INSTALL \"/usr/share/doc/\${owner}/copyright\" DESTINATION \"\${to}/share/licenses/\${name}\"
                FOLLOW_SYMLINK_CHAIN)
        endif()
    endforeach()" COMPONENT bundled)

# the same bytes from every build: the staged files are as old as the release
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/cpack-times.cmake")

include(CPack)

# after `package`; not part of the default tests, which build other presets
enable_testing()
add_test(NAME package-bare COMMAND "${PROJECT_SOURCE_DIR}/tests/package/bare.sh" "${CMAKE_BINARY_DIR}")
add_test(NAME package-supply COMMAND "${PROJECT_SOURCE_DIR}/tests/package/supply.sh" "${PROJECT_SOURCE_DIR}" "${CMAKE_BINARY_DIR}")
set_tests_properties(package-bare package-supply PROPERTIES LABELS package TIMEOUT 1800)
