#pragma once

#include "buoy/log.h"

#include <llama.h>

#include <memory>
#include <string>

namespace buoy {

struct LlamaModelDeleter {
    void operator()(llama_model * model) const { llama_model_free(model); }
};
using LlamaModelPtr = std::unique_ptr<llama_model, LlamaModelDeleter>;

struct LlamaContextDeleter {
    void operator()(llama_context * context) const { llama_free(context); }
};
using LlamaContextPtr = std::unique_ptr<llama_context, LlamaContextDeleter>;

// libllama prints unless told otherwise, for the whole process. While a scope lives, the messages of its thread go to the
// callback (if any) and its last error is kept; outside of every scope they go nowhere. Making one also initialises libllama.
class LlamaScope {
public:
    explicit LlamaScope(const LogCallback & log = {});
    ~LlamaScope();
    LlamaScope(const LlamaScope &)             = delete;
    LlamaScope & operator=(const LlamaScope &) = delete;

    // The most telling of libllama's error lines, or the fallback.
    std::string error_or(const std::string & fallback) const;

private:
    static void receive(ggml_log_level level, const char * text, void * data);
    void        finish_line();

    LogCallback    log_;
    ggml_log_level line_level_ = GGML_LOG_LEVEL_NONE;
    std::string    line_;
    std::string    error_;
    LlamaScope *   outer_;
};

} // namespace buoy
