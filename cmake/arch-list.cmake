# The architectures of a folder as a source file: adding one is adding its file. <name>.cpp defines std::vector<TYPE> <name>_SUFFIX(),
# what is made is std::vector<TYPE> all_SUFFIX().
function(buoy_list_archs dir header type suffix output)
    set(shared arch blocks random-model)
    file(GLOB files CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/${dir}" ${dir}/*.cpp)
    set(declared "")
    set(listed "")
    foreach(file IN LISTS files)
        get_filename_component(name "${file}" NAME_WE)
        if(NOT name IN_LIST shared)
            string(REPLACE - _ name "${name}")
            string(APPEND declared "std::vector<${type}> ${name}_${suffix}();\n")
            string(APPEND listed "${name}_${suffix}, ")
        endif()
    endforeach()
    file(CONFIGURE OUTPUT "${output}" @ONLY CONTENT "#include \"${header}\"

namespace buoy {

${declared}
std::vector<${type}> all_${suffix}() {
    std::vector<${type}> all;
    for (auto * some : {${listed}}) {
        for (${type} & one : some()) {
            all.push_back(std::move(one));
        }
    }
    return all;
}

} // namespace buoy
")
endfunction()
