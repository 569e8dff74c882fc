#include "support/paths.h"

#include <cstdlib>
#include <filesystem>
#include <vector>

namespace buoy::test {

namespace fs = std::filesystem;

std::string oracles_dir() { return BUOY_ORACLES_DIR; }

std::string shared_dir() {
    const char *      from_env = std::getenv("BUOY_SHARED_DIR");
    const std::string dir      = from_env != nullptr && *from_env != '\0' ? from_env : source_dir() + "/../shared";
    return fs::is_directory(fs::path(dir) / "data") ? dir : "";
}

std::string source_dir() { return BUOY_SOURCE_DIR; }

std::string bin_dir() { return BUOY_BIN_DIR; }

bool is_sanitized() { return BUOY_SANITIZED != 0; }

namespace {

struct TempDirs {
    std::vector<fs::path> paths;
    ~TempDirs() {
        for (const fs::path & path : paths) {
            std::error_code ignored;
            fs::remove_all(path, ignored);
        }
    }
};

} // namespace

std::string temp_dir() {
    static TempDirs dirs;
    std::string     pattern = (fs::temp_directory_path() / "buoy-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
        std::abort();
    }
    dirs.paths.emplace_back(pattern);
    return pattern;
}

} // namespace buoy::test
