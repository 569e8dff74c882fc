# The architectures of a folder, one a file, as a source file: adding one is adding its file.

# src/arch/<name>.cpp defines `const Arch arch_<name>`; convert/arch/<name>.cpp `std::vector<ArchMapping> <name>_mappings()`.
function(buoy_list_archs dir output)
    set(shared arch blocks random-model)
    file(GLOB files CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/${dir}" ${dir}/*.cpp)
    set(declared "")
    set(listed "")
    foreach(file IN LISTS files)
        get_filename_component(name "${file}" NAME_WE)
        if(name IN_LIST shared)
            continue()
        endif()
        string(REPLACE - _ name "${name}")
        if(dir STREQUAL "src/arch")
            string(APPEND declared "extern const Arch arch_${name};\n")
            string(APPEND listed "&arch_${name}, ")
        else()
            string(APPEND declared "std::vector<ArchMapping> ${name}_mappings();\n")
            string(APPEND listed "${name}_mappings, ")
        endif()
    endforeach()
    if(dir STREQUAL "src/arch")
        set(text "#include \"arch/arch.h\"\n\nnamespace buoy {\n\n${declared}
const std::vector<const Arch *> & all_archs() {
    static const std::vector<const Arch *> archs = {${listed}};
    return archs;
}\n\n} // namespace buoy\n")
    else()
        set(text "#include \"arch.h\"\n\nnamespace buoy {\n\n${declared}
std::vector<ArchMapping> all_mappings() {
    std::vector<ArchMapping> all;
    for (auto * mappings : {${listed}}) {
        for (ArchMapping & mapping : mappings()) {
            all.push_back(std::move(mapping));
        }
    }
    return all;
}\n\n} // namespace buoy\n")
    endif()
    file(CONFIGURE OUTPUT "${output}" CONTENT "${text}" @ONLY)
endfunction()
