# The target uninstall: removes what `cmake --install` put there, and the directories it made. Each installation leaves a record in
# the build directory (CMake's own manifest forgets all but the last one, and CPack overwrites it).
set(BUOY_INSTALL_RECORDS "${CMAKE_BINARY_DIR}/installed")

# Directories that may have been there before; anything below lib/buoy, share/buoy and the like is ours.
set(shared_dirs "")
foreach(dir "${CMAKE_INSTALL_BINDIR}" "${CMAKE_INSTALL_LIBDIR}/cmake" "${CMAKE_INSTALL_INCLUDEDIR}" "${CMAKE_INSTALL_MANDIR}/man1"
        "${CMAKE_INSTALL_DATADIR}/doc" "${CMAKE_INSTALL_DATADIR}/${BUOY_BASH_COMPLETIONS}"
        "${CMAKE_INSTALL_DATADIR}/${BUOY_ZSH_COMPLETIONS}" "${CMAKE_INSTALL_DATADIR}/${BUOY_FISH_COMPLETIONS}")
    while(NOT dir STREQUAL "")
        list(APPEND shared_dirs "${dir}")
        get_filename_component(dir "${dir}" DIRECTORY)
    endwhile()
endforeach()
list(REMOVE_DUPLICATES shared_dirs)
install(CODE "
    set(buoy_found \"\")
    foreach(dir IN ITEMS . ${shared_dirs})
        if(IS_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/\${dir}\")
            list(APPEND buoy_found \"\${dir}\")
        endif()
    endforeach()" ALL_COMPONENTS)

# After everything else is installed.
function(buoy_record_installation)
    install(CODE "
        set(BUOY_INSTALL_RECORDS \"${BUOY_INSTALL_RECORDS}\")
        include(\"${PROJECT_SOURCE_DIR}/cmake/install-record.cmake\")" ALL_COMPONENTS)
endfunction()

add_custom_target(uninstall
    COMMAND "${CMAKE_COMMAND}" "-DBUOY_INSTALL_RECORDS=${BUOY_INSTALL_RECORDS}" -DREMOVE=ON
            -P "${PROJECT_SOURCE_DIR}/cmake/install-record.cmake"
    COMMENT "" VERBATIM)
