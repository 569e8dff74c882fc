# Read by CPack for each kind of package.
if(CPACK_GENERATOR STREQUAL "DEB")
    set(CPACK_COMPONENTS_ALL runtime)
    set(CPACK_PACKAGING_INSTALL_PREFIX "/usr")
endif()
