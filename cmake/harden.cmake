# Releases (BUOY_HARDEN): what a mistake in memory can do is made harder, and no path of the machine that builds is in a file.
function(buoy_hardened_flags out_compile out_link)
    buoy_cache_root(root)
    set(${out_compile} -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 "-ffile-prefix-map=${root}=cache" PARENT_SCOPE)
    if(APPLE) # whose linker does the like by itself
        set(${out_link} "" PARENT_SCOPE)
    else()
        set(${out_link} -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack PARENT_SCOPE)
    endif()
endfunction()

function(buoy_harden target)
    if(BUOY_HARDEN)
        buoy_hardened_flags(compile link)
        target_compile_options(${target} PRIVATE ${compile} "-ffile-prefix-map=${PROJECT_SOURCE_DIR}=buoy")
        target_link_options(${target} PUBLIC ${link})
    endif()
endfunction()
