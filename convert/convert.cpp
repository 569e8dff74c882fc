#include "convert.h"
#include "buoy/message.h"

#include "base/split-work.h"
#include "buoy/error.h"
#include "buoy/parse.h"
#include "imatrix.h"
#include "output.h"
#include "size-label.h"
#include "tokenizer-check.h"
#include "verify.h"

#include <algorithm>
#include <filesystem>

namespace buoy {

namespace {

namespace fs = std::filesystem;

std::string output_path(const ConvertParams & params, const ConvertInput & input) {
    std::error_code error;
    if (!fs::is_directory(params.output, error)) {
        return params.output;
    }
    return (fs::path(params.output) / file_name(input.name, input.size_label, mix_of(params.outtype).label())).string();
}

std::optional<Imatrix> load_imatrix(const ConvertParams & params, ConvertInput & input) {
    if (params.imatrix.empty()) {
        return std::nullopt;
    }
    Imatrix matrix = Imatrix::load(params.imatrix);
    input.header.set("quantize.imatrix.file", fs::path(params.imatrix).filename().string());
    if (!matrix.datasets().empty()) {
        input.header.set("quantize.imatrix.dataset", matrix.datasets().front());
    }
    input.header.set("quantize.imatrix.entries_count", static_cast<uint32_t>(matrix.size()));
    input.header.set("quantize.imatrix.chunks_count", static_cast<uint32_t>(matrix.n_chunks()));
    return matrix;
}

// A matrix that knows none of the model's tensors is another model's. Embedding and head are never in it: nothing is multiplied
// with the one, and the other has every row.
void check_imatrix(const Imatrix & matrix, const std::vector<PlannedTensor> & tensors, const LogCallback & log) {
    size_t      n_quantised = 0;
    size_t      n_known     = 0;
    std::string missing;
    for (const PlannedTensor & tensor : tensors) {
        const bool quantised = ggml_is_quantized(tensor.type);
        const bool known     = matrix.find(tensor) != nullptr;
        n_quantised += quantised ? 1 : 0;
        n_known += known ? 1 : 0;
        if (quantised && !known && missing.empty() && tensor.name.compare(0, 4, "blk.") == 0) {
            missing = tensor.name;
        }
    }
    if (n_quantised > 0 && n_known == 0) {
        fail(printable(matrix.path()), ": knows none of the model's ", n_quantised, " quantised tensors");
    }
    if (log) {
        const std::string known =
            concat(printable(matrix.path()), ": knows ", n_known, " of ", n_quantised, " quantised tensors");
        log(missing.empty() ? LogLevel::info : LogLevel::warn,
            missing.empty() ? known : concat(known, ", not ", printable(missing), ": is it another model's?"));
    }
}

// Refuses before the work what would be refused after it.
void check_targets(const std::vector<std::string> & read, const std::vector<OutputFile> & files) {
    std::error_code error;
    for (const OutputFile & file : files) {
        for (const std::string & path : read) {
            if (fs::equivalent(file.path, path, error)) {
                fail(printable(file.path), ": is read, so it can't be the output");
            }
        }
    }
}

// The input's own precision as a file beside the output, for as long as it takes.
LogitsError verify_logits(const std::string & path, ConvertInput input, WriteParams write) {
    for (PlannedTensor & tensor : input.tensors) {
        tensor.type = tensor.n_dims == 1 ? GGML_TYPE_F32 : tensor.source_type();
    }
    const std::string exact = path + ".source";
    write.force             = false; // whose file is it?
    write.imatrix           = nullptr;
    write_output(plan_output(input, exact, 0), input.tensors, write);
    struct Remove {
        const std::string & path;
        ~Remove() {
            std::error_code error;
            fs::remove(path, error);
        }
    } const remove{exact};
    return compare_logits(exact, path, write.n_threads);
}

// What the user says of a model that does not say it itself.
void set_diffusion_keys(ConvertInput & input, const ConvertParams & params) {
    const char * const mask_key = "tokenizer.ggml.mask_token_id";
    if (!params.mask_token.empty()) {
        const std::vector<std::string> tokens = input.header.texts("tokenizer.ggml.tokens");
        const auto                     found  = std::find(tokens.begin(), tokens.end(), params.mask_token);
        const auto                     number = parse_number<uint32_t>(params.mask_token);
        if (number ? *number >= tokens.size() : found == tokens.end()) {
            fail("the mask token ", in_quotes(params.mask_token), " is none of the ", tokens.size(), " tokens of ",
                 printable(params.input));
        }
        input.header.set(mask_key, number ? *number : static_cast<uint32_t>(found - tokens.begin()));
    }
    if (params.block_length < 0 || params.block_length > INT32_MAX) {
        fail("the block length is ", params.block_length, ", expected 1 to ", INT32_MAX);
    }
    if (params.block_length > 0) {
        if (!input.header.has(mask_key)) {
            fail("a block length is for diffusion models, ", printable(params.input),
                 " has no mask token and none was given");
        }
        input.header.set("diffusion.block_length", static_cast<uint32_t>(params.block_length));
    }
    const std::string causal_key = concat(input.model.arch, ".attention.causal");
    if (params.force_causal) {
        input.header.set(causal_key, true);
    } else if (params.block_length > 0 || !params.mask_token.empty()) {
        input.header.set(causal_key, false);
    } else if (input.may_denoise) {
        fail(printable(params.input), ": names a mask token, so it may be a diffusion model, but ",
             in_quotes(input.model.arch), " is an autoregressive one; insist with `force_causal`, or say more with ",
             "`mask_token` or `block_length`");
    }
    if (input.needs_mask && !input.header.has(mask_key) && params.log) {
        params.log(LogLevel::warn, concat(printable(params.input), ": a diffusion model without a mask token"));
    }
}

void choose_types(ConvertInput & input, const QuantMix & mix, bool has_imatrix,
                  const std::vector<TensorTypeRule> & rules, const LogCallback & log) {
    std::vector<MixTensor> tensors;
    for (const PlannedTensor & tensor : input.tensors) {
        tensors.push_back({tensor.name, tensor.n_dims, tensor.n_cols, tensor.type});
    }
    choose_types(tensors, mix, input.model, has_imatrix, rules, log);
    for (size_t i = 0; i < tensors.size(); i++) {
        input.tensors[i].type = tensors[i].type;
    }
}

ConvertResult convert(const ConvertParams & params) {
    const QuantMix &            mix = mix_of(params.outtype);
    std::vector<TensorTypeRule> rules;
    for (const std::string & text : params.tensor_types) {
        rules.push_back(parse_tensor_type(text));
    }
    ConvertInput input = open_input(params.input, mix, params.log, params.force_causal);
    set_diffusion_keys(input, params);
    if (input.tokenizer) {
        check_tokenizer(*input.tokenizer, input.header);
    }
    const std::optional<Imatrix> imatrix = load_imatrix(params, input);
    choose_types(input, mix, imatrix.has_value(), rules, params.log);
    if (imatrix) {
        check_imatrix(*imatrix, input.tensors, params.log);
    }
    const std::vector<OutputFile> files = plan_output(input, output_path(params, input), params.split_max);
    if (imatrix) {
        input.files.push_back(params.imatrix);
    }
    check_targets(input.files, files);

    ConvertResult result;
    for (const OutputFile & file : files) {
        result.paths.push_back(file.path);
        result.n_bytes += file.n_bytes;
    }
    for (const PlannedTensor & tensor : input.tensors) {
        result.tensors.push_back({tensor.name, tensor.ne(), tensor.source_type(), tensor.type, tensor.n_bytes()});
    }
    if (params.dry_run) {
        return result;
    }
    WriteParams write;
    write.force     = params.force;
    write.n_threads = params.n_threads > 0 ? params.n_threads : core_count();
    write.imatrix   = imatrix ? &*imatrix : nullptr;
    write.log       = params.log;
    write.progress  = params.progress;
    write_output(files, input.tensors, write);
    if (params.verify) {
        result.errors = verify_tensors(files.front().path, input.tensors, write.n_threads);
    }
    if (params.verify_logits) {
        result.logits = verify_logits(files.front().path, std::move(input), write);
    }
    return result;
}

} // namespace

ConvertInput open_input(const std::string & path, const QuantMix & mix, const LogCallback & log, bool force_causal) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
        return open_hf(path, mix, log, force_causal);
    }
    if (!fs::exists(path, error)) {
        fail(printable(path), ": not a directory with a Hugging Face checkpoint, nor a file");
    }
    const std::string extension = fs::path(path).extension().string();
    if (extension == ".safetensors" || extension == ".json") {
        fail(printable(path), ": one file of a checkpoint; the input is the directory it lies in");
    }
    return extension == ".bin" ? open_llama2c(path, mix) : open_gguf(path, mix, log);
}

ConvertResult convert_hf(const ConvertParams & params) {
    try {
        return convert(params);
    } catch (const Error & e) {
        throw Error(printable(e.what()), e.kind()); // paths and names may hold anything
    } catch (const std::bad_alloc &) {
        fail_runtime(printable(params.input), ": out of memory while converting");
    } catch (const std::exception & e) {
        fail(printable(params.input), ": ", printable(e.what()));
    }
}

} // namespace buoy
