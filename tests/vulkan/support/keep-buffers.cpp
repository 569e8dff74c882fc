// Stands between ggml's Vulkan backend and the driver and leaves out vkDestroyBuffer. Mesa's llvmpipe (22.3, Debian 12) touches the
// buffers of all bindings of a descriptor set, also those that the shader does not use: ggml leaves old ones there, as Vulkan
// allows, and a buffer that was destroyed meanwhile is freed memory. What is kept is the handle, not the memory behind it.
// The backend asks these two functions for all others; being in the program they come before libvulkan's.

#include <dlfcn.h>

#include <cstring>

namespace {

using Function = void (*)();
using Lookup   = Function (*)(void * owner, const char * name);

void keep_buffer(void * /*device*/, void * /*buffer*/, const void * /*allocator*/) {}

Function look_up(const char * by, void * owner, const char * name) {
    static void * const library = dlopen("libvulkan.so.1", RTLD_NOW);
    if (std::strcmp(name, "vkDestroyBuffer") == 0) {
        return reinterpret_cast<Function>(keep_buffer);
    }
    return reinterpret_cast<Lookup>(dlsym(library, by))(owner, name);
}

} // namespace

extern "C" {

Function vkGetInstanceProcAddr(void * instance, const char * name) {
    return look_up("vkGetInstanceProcAddr", instance, name);
}

Function vkGetDeviceProcAddr(void * device, const char * name) { return look_up("vkGetDeviceProcAddr", device, name); }
}
