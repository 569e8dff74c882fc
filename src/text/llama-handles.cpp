#include "text/llama-handles.h"

#include <mutex>

namespace buoy {

namespace {

// libllama's log is one per process; what varies is who listens on this thread.
thread_local LlamaScope * current_scope = nullptr;

LogLevel to_log_level(ggml_log_level level) {
    switch (level) {
        case GGML_LOG_LEVEL_ERROR: return LogLevel::error;
        case GGML_LOG_LEVEL_WARN: return LogLevel::warn;
        case GGML_LOG_LEVEL_INFO: return LogLevel::info;
        default: return LogLevel::debug;
    }
}

// "llama_model_load: error loading model: why" names functions, not what a user can act on.
std::string without_function_name(const std::string & line) {
    const size_t colon = line.find(": ");
    const bool   named = colon != std::string::npos && line.find(' ') == colon + 1;
    return named ? line.substr(colon + 2) : line;
}

} // namespace

LlamaScope::LlamaScope(const LogCallback & log) : log_(log), outer_(current_scope) {
    static std::once_flag once;
    std::call_once(once, [] {
        llama_log_set(&LlamaScope::receive, nullptr);
        llama_backend_init();
    });
    current_scope = this;
}

LlamaScope::~LlamaScope() { current_scope = outer_; }

std::string LlamaScope::error_or(const std::string & fallback) const { return error_.empty() ? fallback : error_; }

void LlamaScope::receive(ggml_log_level level, const char * text, void * /*data*/) {
    LlamaScope * scope = current_scope;
    if (scope == nullptr) {
        return;
    }
    if (level != GGML_LOG_LEVEL_CONT) {
        scope->line_level_ = level;
    }
    for (const char * c = text; *c != '\0'; c++) {
        if (*c == '\n') {
            scope->finish_line();
        } else {
            scope->line_ += *c;
        }
    }
}

void LlamaScope::finish_line() {
    const std::string line = without_function_name(line_);
    line_.clear();
    // The first error says why; the ones after it only say that the caller failed, too.
    if (line_level_ == GGML_LOG_LEVEL_ERROR && error_.empty()) {
        error_ = line;
    }
    if (log_ && !line.empty()) {
        log_(to_log_level(line_level_), line);
    }
}

} // namespace buoy
