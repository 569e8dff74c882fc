# Where an installation has what, relative to its prefix. Programs find models and libraries from where they lie themselves, so
# that the prefix can be moved.
set(BUOY_INSTALL_GGML   "${CMAKE_INSTALL_LIBDIR}/buoy") # away from any other copy in the same prefix
set(BUOY_INSTALL_MODELS "${CMAKE_INSTALL_DATADIR}/buoy/models")
if(BUOY_BACKEND_DL)
    # ggml loads its backends from the directory of the running program, and libraries have no place in bin: it has links
    set(BUOY_INSTALL_PROGRAMS "${BUOY_INSTALL_GGML}/bin")
else()
    set(BUOY_INSTALL_PROGRAMS "${CMAKE_INSTALL_BINDIR}")
endif()

# Sets `out` to the way from one of these directories to another.
function(buoy_install_way from to out)
    file(RELATIVE_PATH way "/prefix/${from}" "/prefix/${to}")
    set(${out} "${way}" PARENT_SCOPE)
endfunction()
