#include "measure.h"

#include "buoy/message.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <new>

#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace buoy {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProductWork, quantised, f16, bf16, f32, weight_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MachinePeak, n_threads, instructions, f32, bf16, int8, memory)

} // namespace buoy

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Measurement, arch, type, load_ms, samples_ms, n_tokens, n_forward, forward_ms,
                                   attn_ratio, attn_bytes, summary_ms, weight_bytes, kv_bytes, compute_bytes,
                                   peak_bytes, n_threads, work)

namespace {

nlohmann::json error_json(const std::string & text, buoy::ErrorKind kind) {
    return {{"error", buoy::printable(text)}, {"request", kind == buoy::ErrorKind::request}};
}

nlohmann::json run_or_say(const std::function<nlohmann::json()> & run) {
    try {
        return run();
    } catch (const buoy::Error & error) {
        return error_json(error.what(), error.kind());
    } catch (const std::bad_alloc &) {
        return error_json("out of memory", buoy::ErrorKind::runtime);
    } catch (const std::exception & error) {
        return error_json(error.what(), buoy::ErrorKind::runtime);
    }
}

void write_all(int fd, const std::string & text) {
    for (size_t n_done = 0; n_done < text.size();) {
        const ssize_t n = write(fd, text.data() + n_done, text.size() - n_done);
        if (n < 0 && errno != EINTR) {
            return; // nobody reads any more
        }
        n_done += n > 0 ? static_cast<size_t>(n) : 0;
    }
}

std::string read_all(int fd) {
    std::string text;
    char        buffer[4096];
    for (;;) {
        const ssize_t n = read(fd, buffer, sizeof(buffer));
        if (n > 0) {
            text.append(buffer, static_cast<size_t>(n));
        } else if (n == 0 || errno != EINTR) {
            return text;
        }
    }
}

int wait_for(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

// What a child process makes of run(); of: what for, in messages.
nlohmann::json run_apart(const std::string & of, const std::function<nlohmann::json()> & run) {
    int ends[2];
    std::fflush(nullptr); // or the child would print it again
    if (pipe(ends) != 0) {
        buoy::fail_runtime("can't create a pipe to the measuring process: ", std::strerror(errno));
    }
    const pid_t pid = fork();
    if (pid == 0) {
#ifdef __linux__
        prctl(PR_SET_PDEATHSIG, SIGKILL); // nothing to measure for when we are gone
#endif
        close(ends[0]);
        write_all(ends[1], run_or_say(run).dump());
        _exit(0);
    }
    const int error = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        buoy::fail_runtime("can't start the measuring process: ", std::strerror(error));
    }
    const std::string text = read_all(ends[0]);
    close(ends[0]);
    const int            status = wait_for(pid);
    const nlohmann::json json   = nlohmann::json::parse(text, nullptr, false);
    if (WIFSIGNALED(status) || !json.is_object()) {
        buoy::fail_runtime("the measuring process for ", of, " ended early",
                           WIFSIGNALED(status) ? buoy::concat(", by signal ", WTERMSIG(status)) : std::string());
    }
    if (json.contains("error")) {
        const bool request = json.at("request").get<bool>();
        throw buoy::Error(json.at("error").get<std::string>(),
                          request ? buoy::ErrorKind::request : buoy::ErrorKind::runtime);
    }
    return json;
}

} // namespace

Measurement measure_apart(const Case & one, const MeasureParams & params) {
    return run_apart(buoy::in_quotes(one.model_path), [&] { return nlohmann::json(measure(one, params)); })
        .get<Measurement>();
}

buoy::MachinePeak measure_peak_apart(int32_t n_threads) {
    return run_apart("--peak", [&] { return nlohmann::json(buoy::measure_peak(n_threads)); }).get<buoy::MachinePeak>();
}
