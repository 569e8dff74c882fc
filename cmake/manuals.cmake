# What the programs say of themselves, for man and the shells: made by running each once it is built, laid out as an installation
# is, so that `man -M build/share/man` finds it too.
set(BUOY_MANUALS "${CMAKE_BINARY_DIR}/share")
set(BUOY_BASH_COMPLETIONS bash-completion/completions)
set(BUOY_ZSH_COMPLETIONS  zsh/site-functions)
set(BUOY_FISH_COMPLETIONS fish/vendor_completions.d)

# buoy_manual(PROGRAM): a program whose flags stand in a table.
function(buoy_manual program)
    if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
        return() # it can't be run here
    endif()
    set(outputs "")
    foreach(form "man;man/man1/${program}.1" "bash;${BUOY_BASH_COMPLETIONS}/${program}"
            "zsh;${BUOY_ZSH_COMPLETIONS}/_${program}" "fish;${BUOY_FISH_COMPLETIONS}/${program}.fish")
        list(GET form 0 flag)
        list(GET form 1 output)
        set(output "${BUOY_MANUALS}/${output}")
        get_filename_component(dir "${output}" DIRECTORY)
        file(MAKE_DIRECTORY "${dir}")
        add_custom_command(OUTPUT "${output}" COMMAND ${program} --help-${flag} > "${output}" DEPENDS ${program}
            COMMENT "" VERBATIM)
        list(APPEND outputs "${output}")
    endforeach()
    add_custom_target(${program}-manual ALL DEPENDS ${outputs})
    set_property(GLOBAL APPEND PROPERTY BUOY_MANUALS ${program})
endfunction()

function(buoy_install_manuals)
    get_property(programs GLOBAL PROPERTY BUOY_MANUALS)
    foreach(program IN LISTS programs)
        install(FILES "${BUOY_MANUALS}/man/man1/${program}.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT runtime)
        install(FILES "${BUOY_MANUALS}/${BUOY_BASH_COMPLETIONS}/${program}"
            DESTINATION "${CMAKE_INSTALL_DATADIR}/${BUOY_BASH_COMPLETIONS}" COMPONENT runtime)
        install(FILES "${BUOY_MANUALS}/${BUOY_ZSH_COMPLETIONS}/_${program}"
            DESTINATION "${CMAKE_INSTALL_DATADIR}/${BUOY_ZSH_COMPLETIONS}" COMPONENT runtime)
        install(FILES "${BUOY_MANUALS}/${BUOY_FISH_COMPLETIONS}/${program}.fish"
            DESTINATION "${CMAKE_INSTALL_DATADIR}/${BUOY_FISH_COMPLETIONS}" COMPONENT runtime)
    endforeach()
endfunction()
