# The one place that says which upstream llama.cpp (with its ggml) this project stands on.
# The tree id names the source's content; the npm bundle's squashed history gives other commit ids than upstream's.
set(BUOY_PIN_VERSION     "v0.5.0")
set(BUOY_PIN_TREE        "fd570ef54b10ec5fecb739e7e04c8ce44a6f415a")
set(BUOY_PIN_NPM_PACKAGE "node-llama-cpp@3.22.1")
set(BUOY_PIN_NPM_BUNDLE  "package/llama/gitRelease.bundle")
set(BUOY_PIN_GIT_URL     "https://github.com/ggml-org/llama.cpp")
set(BUOY_PIN_GIT_TAG     "v0.5.0")

# ggml's Vulkan backend of the same release, compiled; the hash is the library's
set(BUOY_PIN_VULKAN_LINUX_X64_PACKAGE "@node-llama-cpp/linux-x64-vulkan@3.22.1")
set(BUOY_PIN_VULKAN_LINUX_X64_LIBRARY "package/bins/linux-x64-vulkan/libggml-vulkan.so")
set(BUOY_PIN_VULKAN_LINUX_X64_SHA256  "5dbbe80b520118b6b71f3ea31935ba107cee9c9c68f7e7ed18b20cdb424e819b")
