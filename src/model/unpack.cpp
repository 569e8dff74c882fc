#include "model/unpack.h"

#include "base/split-work.h"
#include "buoy/message.h"
#include "io/gguf-file.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace buoy {

namespace {

// ggml reports all of the machine's memory as free, so the kernel is asked first.
uint64_t machine_memory(ggml_backend_dev_t cpu) {
    std::ifstream meminfo("/proc/meminfo");
    std::string   key, unit;
    uint64_t      kib = 0;
    while (meminfo >> key >> kib) {
        if (key == "MemAvailable:") {
            return kib << 10;
        }
        std::getline(meminfo, unit);
    }
    size_t free = 0, total = 0;
    ggml_backend_dev_memory(cpu, &free, &total);
    return free;
}

std::optional<uint64_t> read_number(const std::string & path) {
    std::ifstream file(path);
    uint64_t      number = 0;
    return file >> number ? std::optional<uint64_t>(number) : std::nullopt; // "max" is none
}

// What the limits of a container leave: those of our group and of all that it is in.
uint64_t group_memory() {
    const std::string root = "/sys/fs/cgroup";
    uint64_t          left = std::numeric_limits<uint64_t>::max();
    std::ifstream     file("/proc/self/cgroup");
    std::string       line, group;
    while (std::getline(file, line)) {
        if (line.rfind("0::", 0) == 0) {
            group = line.substr(3);
        }
    }
    for (;;) {
        const std::string dir   = root + (group == "/" ? "" : group);
        const auto        limit = read_number(dir + "/memory.max");
        const auto        used  = read_number(dir + "/memory.current");
        if (limit && used) {
            left = std::min(left, *limit - std::min(*limit, *used));
        }
        if (group.empty() || group == "/") {
            return left;
        }
        group.erase(group.rfind('/'));
    }
}

// What can be had without pushing others out.
uint64_t available_memory(ggml_backend_dev_t cpu) { return std::min(machine_memory(cpu), group_memory()); }

} // namespace

bool choose_unpack(const GgufFile & file, const Placement & placement, const ModelParams & params,
                   const Traits & traits, const KernelChoice & products) {
    if (params.unpack != Unpack::automatic) {
        return params.unpack == Unpack::f16;
    }
    uint64_t n_unpacked = 0, n_stored = 0;
    for (const GgufTensor & tensor : file.tensors()) {
        // experts stay as they are: few rows reach each
        const bool by_kernel = products.can_be_ours({tensor.type, tensor.ne[0], tensor.ne[2] > 1});
        if (ggml_is_quantized(tensor.type) && tensor.ne[2] == 1 && !by_kernel) {
            n_unpacked +=
                static_cast<uint64_t>(tensor.ne[0] * tensor.ne[1] * tensor.ne[2] * tensor.ne[3]) * sizeof(ggml_fp16_t);
            n_stored += tensor.size;
        }
    }
    // one token at a time is bound by reading the weights, and F16 is more to read
    if (!traits.is_diffusion() || !placement.cpu_only() || n_unpacked == 0 ||
        n_unpacked > available_memory(placement.devices().back()) / 2) {
        return false;
    }
    if (params.log) {
        params.log(LogLevel::notice, concat("unpacking the weights to F16 for speed: ", n_stored >> 20, " MiB become ",
                                            n_unpacked >> 20, " MiB (`unpack` off keeps them)"));
    }
    return true;
}

void unpack_rows(ggml_type type, const uint8_t * from, ggml_fp16_t * to, int64_t n_cols, int64_t n_rows,
                 int n_threads) {
    const ggml_to_float_t to_float = ggml_get_type_traits(type)->to_float;
    const size_t          row_size = ggml_row_size(type, n_cols);
    split_work(n_rows, static_cast<int>(std::clamp<int64_t>(n_rows, 1, n_threads)),
               [=](int, int64_t first, int64_t last) {
                   std::vector<float> row(static_cast<size_t>(n_cols));
                   for (int64_t i = first; i < last; i++) {
                       to_float(from + static_cast<size_t>(i) * row_size, row.data(), n_cols);
                       ggml_fp32_to_fp16_row(row.data(), to + i * n_cols, n_cols);
                   }
               });
}

} // namespace buoy
