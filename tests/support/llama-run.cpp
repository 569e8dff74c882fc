#include "support/llama-run.h"

#include "text/llama-handles.h"

#include <algorithm>
#include <stdexcept>

namespace buoy::test {

namespace {

struct Loaded {
    LlamaModelPtr   model;
    LlamaContextPtr context;

    Loaded(const std::string & path, uint32_t n_ctx) {
        const LlamaScope   scope;
        llama_model_params model_params = llama_model_default_params();
        model_params.n_gpu_layers       = 0;
        model.reset(llama_model_load_from_file(path.c_str(), model_params));
        if (!model) {
            throw std::runtime_error("libllama: " + scope.error_or("can't load " + path));
        }
        llama_context_params params = llama_context_default_params();
        params.n_ctx                = n_ctx;
        params.n_batch              = n_ctx;
        params.n_ubatch             = n_ctx;
        params.n_threads            = 2;
        params.n_threads_batch      = 2;
        params.flash_attn_type      = LLAMA_FLASH_ATTN_TYPE_DISABLED;
        params.type_k               = GGML_TYPE_F32;
        params.type_v               = GGML_TYPE_F32;
        context.reset(llama_init_from_model(model.get(), params));
        if (!context) {
            throw std::runtime_error("libllama: " + scope.error_or("no context for " + path));
        }
    }

    int32_t n_vocab() const { return llama_vocab_n_tokens(llama_model_get_vocab(model.get())); }

    void decode(const std::vector<int32_t> & tokens, int32_t first) {
        const LlamaScope scope;
        llama_batch      batch = llama_batch_init(static_cast<int32_t>(tokens.size()), 0, 1);
        batch.n_tokens         = static_cast<int32_t>(tokens.size());
        for (size_t i = 0; i < tokens.size(); ++i) {
            batch.token[i]     = tokens[i];
            batch.pos[i]       = first + static_cast<int32_t>(i);
            batch.n_seq_id[i]  = 1;
            batch.seq_id[i][0] = 0;
            batch.logits[i]    = 1;
        }
        const int32_t status = llama_decode(context.get(), batch);
        llama_batch_free(batch);
        if (status != 0) {
            throw std::runtime_error("libllama: decoding failed");
        }
    }
};

} // namespace

std::vector<float> llama_logits(const std::string & gguf_path, const std::vector<int32_t> & tokens) {
    Loaded llama(gguf_path, 512);
    llama.decode(tokens, 0);
    std::vector<float> logits;
    for (size_t i = 0; i < tokens.size(); ++i) {
        const float * row = llama_get_logits_ith(llama.context.get(), static_cast<int32_t>(i));
        logits.insert(logits.end(), row, row + llama.n_vocab());
    }
    return logits;
}

std::string llama_greedy_text(const std::string & gguf_path, const std::string & prompt, int n_tokens) {
    Loaded               llama(gguf_path, 512);
    const llama_vocab *  vocab = llama_model_get_vocab(llama.model.get());
    std::vector<int32_t> tokens(prompt.size() + 8);
    const int32_t        n = llama_tokenize(vocab, prompt.data(), static_cast<int32_t>(prompt.size()), tokens.data(),
                                            static_cast<int32_t>(tokens.size()), true, false);
    tokens.resize(static_cast<size_t>(std::max(n, 0)));

    std::string text;
    int32_t     first = 0;
    for (int i = 0; i < n_tokens; ++i) {
        llama.decode(tokens, first);
        first += static_cast<int32_t>(tokens.size());
        const float * row  = llama_get_logits_ith(llama.context.get(), -1);
        const int32_t next = static_cast<int32_t>(std::max_element(row, row + llama.n_vocab()) - row);
        if (llama_vocab_is_eog(vocab, next)) {
            break;
        }
        char          piece[256];
        const int32_t size = llama_token_to_piece(vocab, next, piece, sizeof(piece), 0, false);
        text.append(piece, static_cast<size_t>(std::max(size, 0)));
        tokens = {next};
    }
    return text;
}

} // namespace buoy::test
