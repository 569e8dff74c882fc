# Imports ggml, libllama and the template engine from the prefix BUOY_GGML_PREFIX as one target, buoy::ggml.
# Used by the build, and installed for find_package(buoy).
if(NOT TARGET buoy::ggml)
    # upstream's packages would keep what they found in another prefix
    get_cmake_property(cached CACHE_VARIABLES)
    list(FILTER cached INCLUDE REGEX "^(ggml_DIR|llama_DIR|llama_LIBRARY|GGML_[A-Z0-9_]*LIBRARY)$")
    foreach(name IN LISTS cached)
        unset(${name} CACHE)
    endforeach()
    find_package(Threads REQUIRED)
    find_package(ggml REQUIRED CONFIG QUIET PATHS "${BUOY_GGML_PREFIX}/lib/cmake/ggml" NO_DEFAULT_PATH)
    find_package(llama REQUIRED CONFIG QUIET PATHS "${BUOY_GGML_PREFIX}/lib/cmake/llama" NO_DEFAULT_PATH)

    add_library(buoy::jinja STATIC IMPORTED)
    set_target_properties(buoy::jinja PROPERTIES
        IMPORTED_LOCATION "${BUOY_GGML_PREFIX}/lib/${CMAKE_STATIC_LIBRARY_PREFIX}buoy-jinja${CMAKE_STATIC_LIBRARY_SUFFIX}")

    if(TARGET ggml::ggml-cuda)
        # upstream's package forgets what its static library calls
        set_property(TARGET ggml::ggml-cuda APPEND PROPERTY INTERFACE_LINK_LIBRARIES CUDA::cudart CUDA::cublas)
    endif()

    add_library(buoy::ggml INTERFACE IMPORTED)
    target_include_directories(buoy::ggml SYSTEM INTERFACE
        "${BUOY_GGML_PREFIX}/include" "${BUOY_GGML_PREFIX}/include/common" "${BUOY_GGML_PREFIX}/include/vendor")
    target_link_libraries(buoy::ggml INTERFACE
        buoy::jinja llama ggml::ggml ggml::all ggml::ggml-base Threads::Threads ${CMAKE_DL_LIBS})
endif()
