#include "buoy/bundled.h"

#include "buoy/message.h"

#include <array>
#include <filesystem>

#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

namespace buoy {

namespace {

namespace fs = std::filesystem;

fs::path program_directory() {
    std::error_code error;
#ifdef __APPLE__
    std::array<char, 4096> buffer{};
    uint32_t               size = buffer.size();
    const fs::path program = _NSGetExecutablePath(buffer.data(), &size) == 0 ? fs::canonical(buffer.data(), error) : "";
#else
    const fs::path program = fs::read_symlink("/proc/self/exe", error);
#endif
    return error ? fs::path() : program.parent_path();
}

} // namespace

std::vector<std::string> bundled_directories(const std::string & models_dir) {
    std::vector<std::string> directories;
    if (!models_dir.empty()) {
        directories.push_back(models_dir);
    }
    if (const fs::path program = program_directory(); !program.empty()) {
        directories.push_back((program / "models").string());
        directories.push_back((program / BUOY_MODELS_INSTALLED).lexically_normal().string());
        directories.push_back((program.parent_path().parent_path() / "models").string());
    }
#ifdef BUOY_MODELS_SOURCE
    directories.emplace_back(BUOY_MODELS_SOURCE);
#endif
    return directories;
}

std::string find_model(const std::string & name_or_path, const std::string & models_dir) {
    std::error_code error;
    if ((name_or_path != bundled_diffusion_model && name_or_path != bundled_autoregressive_model) ||
        fs::exists(name_or_path, error)) {
        return name_or_path;
    }
    std::string looked_at;
    for (const std::string & directory : bundled_directories(models_dir)) {
        const fs::path file = fs::path(directory) / (name_or_path + ".gguf");
        if (fs::exists(file, error)) {
            return file.lexically_normal().string();
        }
        looked_at += (looked_at.empty() ? "" : ", ") + printable(directory);
    }
    fail("the bundled model ", name_or_path, " is not in ", looked_at,
         "; set `models_dir` to the directory that has it");
}

} // namespace buoy
