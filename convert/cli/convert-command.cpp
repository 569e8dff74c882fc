#include "commands.h"

#include "base/fail.h"
#include "base/size.h"
#include "convert.h"
#include "session.h"

#include <cstdio>

namespace buoy {

namespace {

std::string shape_text(const std::vector<int64_t> & ne) {
    std::string out = "[";
    for (size_t i = 0; i < ne.size(); ++i) {
        out += concat(i == 0 ? "" : ", ", ne[i]);
    }
    return out + "]";
}

void print_plan(const ConvertResult & result) {
    uint64_t n_bits = 0;
    int64_t  n_all  = 0;
    for (const TensorFate & tensor : result.tensors) {
        int64_t n = 1;
        for (const int64_t dim : tensor.ne) {
            n *= dim;
        }
        n_all += n;
        n_bits += 8 * tensor.n_bytes;
        std::printf("%-36s %-20s %5s -> %-6s %11.3f MB\n", tensor.name.c_str(), shape_text(tensor.ne).c_str(),
                    ggml_type_name(tensor.from), ggml_type_name(tensor.to), static_cast<double>(tensor.n_bytes) / 1e6);
    }
    for (const std::string & path : result.paths) {
        std::printf("%s\n", path.c_str());
    }
    std::printf("%zu tensors, %.3f MB in all, %.2f bits per weight\n", result.tensors.size(),
                static_cast<double>(result.n_bytes) / 1e6, static_cast<double>(n_bits) / static_cast<double>(n_all));
}

void print_errors(const ConvertResult & result) {
    constexpr size_t SHOWN = 5;
    std::printf("verified %zu tensors; the largest errors:\n", result.errors.size());
    for (size_t i = 0; i < result.errors.size() && i < SHOWN; ++i) {
        const TensorError & error = result.errors[i];
        std::printf("%-36s %-6s NMSE %.3g, at most %.3g off\n", error.name.c_str(), ggml_type_name(error.type),
                    error.nmse, error.largest);
    }
}

} // namespace

int convert_command(int argc, char ** argv) {
    ConvertParams params;
    std::string   outtype = "f16";
    std::string   split_max;
    bool          verbose = false;

    CLI::App app("Converts checkpoints to GGUF and quantises them.", "llama-diffusion-convert");
    app.add_option("input", params.input, "Hugging Face directory, GGUF file or llama2.c .bin")->required();
    app.add_option("-o,--output", params.output, "GGUF file to write, or a directory for one named by convention")
        ->required();
    app.add_option("--outtype", outtype, outtype_names())->capture_default_str();
    app.add_option("--tensor-type", params.tensor_types, "REGEX=TYPE: the type of tensors with such a name; repeatable")
        ->allow_extra_args(false);
    app.add_option("--imatrix", params.imatrix, "importance matrix to quantise with");
    app.add_option("--mask-token", params.mask_token, "the mask of a model that does not name one: its text or id");
    app.add_option("--block-length", params.block_length,
                   "block-causal attention with blocks of that many, where the config does not say")
        ->check(CLI::Range(1, INT32_MAX));
    app.add_option("--split-max-size", split_max, "several files of at most this size (500M, 2G)");
    app.add_flag("--dry-run", params.dry_run, "print what would be written, write nothing");
    app.add_flag("--verify", params.verify, "read the output again and compare it with the input");
    app.add_flag("--verify-logits", params.verify_logits,
                 "run the input's precision, written beside the output meanwhile, and the output and compare");
    app.add_option("-t,--threads", params.n_threads, "threads, 0: one per core")->check(CLI::Range(0, 1024));
    app.add_flag("--force", params.force, "replace an existing output");
    app.add_flag("-v,--verbose", verbose, "name every tensor");
    app.footer("Commands: imatrix -m MODEL -f TEXT -o FILE, loss -m MODEL -f TEXT; each has its own --help.");

    Session session("writing");
    return session.run(app, argc, argv, [&] {
        params.outtype   = parse_outtype(outtype);
        params.split_max = split_max.empty() ? 0 : parse_size("--split-max-size", split_max);
        params.log       = session.log(verbose);
        params.progress  = session.progress();

        const ConvertResult result = convert_hf(params);
        if (params.dry_run || verbose) {
            print_plan(result);
        } else {
            for (const std::string & path : result.paths) {
                std::printf("%s\n", path.c_str());
            }
        }
        if (params.verify && !params.dry_run) {
            print_errors(result);
        }
        if (result.logits) {
            std::printf("logits: NMSE %.3g, the same first choice in %lld of %lld rows\n", result.logits->nmse,
                        static_cast<long long>(result.logits->n_agree), static_cast<long long>(result.logits->n_rows));
        }
    });
}

} // namespace buoy
