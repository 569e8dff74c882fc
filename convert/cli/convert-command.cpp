#include "commands.h"

#include "console.h"
#include "convert.h"
#include "interrupt.h"
#include "progress.h"

#include <cstdio>
#include <memory>

namespace {

using namespace buoy;

struct Typed {
    ConvertParams params;
    std::string   outtype = "f16";
    bool          verbose = false;
};

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
    constexpr size_t n_shown = 5;
    std::printf("verified %zu tensors; the largest errors:\n", result.errors.size());
    for (size_t i = 0; i < result.errors.size() && i < n_shown; ++i) {
        const TensorError & error = result.errors[i];
        std::printf("%-36s %-6s NMSE %.3g, at most %.3g off\n", error.name.c_str(), ggml_type_name(error.type),
                    error.nmse, error.largest);
    }
}

void convert(const Typed & typed) {
    const ConvertParams & params = typed.params;
    const ConvertResult   result = convert_hf(params);
    if (params.dry_run || typed.verbose) {
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
}

void add_flags(FlagTable & table, Typed & typed) {
    ConvertParams & p         = typed.params;
    const auto      set_split = [&p](const std::string & where, const std::string & text) {
        p.split_max = parse_size(where, text);
    };
    table.group("Input and output");
    table.text("input", "INPUT", p.input, "Hugging Face directory, GGUF file or llama2.c .bin").is_required();
    table.text("-o, --output", "OUTPUT", p.output, "GGUF file to write, or a directory for one named by convention")
        .is_required();
    table.call("--split-max-size", "SIZE", set_split, "several files of at most this size (500M, 2G)")
        .with_setting("split_max");
    table.toggle("--force", p.force, true, "replace an existing output").with_setting("force");
    table.group("Model");
    std::vector<std::string> outtypes = split(outtype_names(), ", ");
    std::erase(outtypes, "");
    table.text("--outtype", "TYPE", typed.outtype, outtype_names())
        .with_values(outtypes)
        .with_default(typed.outtype)
        .with_setting("outtype");
    table
        .texts("--tensor-type", "REGEX=TYPE", p.tensor_types, 1,
               "the type of tensors with such a name; can be repeated")
        .with_setting("tensor_types");
    table.text("--imatrix", "FILE", p.imatrix, "importance matrix to quantise with");
    table.text("--mask-token", "TOKEN", p.mask_token, "the mask of a model that does not name one: its text or id");
    table
        .number("--block-length", "N", p.block_length, {1, whole_max},
                "block-causal attention with blocks of that many, where the config does not say")
        .with_default("");
    table.group("Running");
    table.toggle("--dry-run", p.dry_run, true, "print what would be written, write nothing");
    table.toggle("--verify", p.verify, true, "read the output again and compare it with the input");
    table.toggle("--verify-logits", p.verify_logits, true,
                 "run the input's precision, written beside the output meanwhile, and the output and compare");
    add_threads_flag(table, p.n_threads);
    table.toggle("-v, --verbose", typed.verbose, true, "name every tensor");
}

} // namespace

void add_convert_command(Program & program) {
    const auto typed   = std::make_shared<Typed>();
    Command &  command = program.add("", "convert");
    add_flags(command.flags, *typed);
    command.run = [typed](const Command & itself) {
        const Console console("llama-diffusion-convert", itself.flags, typed->verbose);
        Progress      line("writing", {"MB", 1000000});
        typed->params.outtype  = parse_outtype(typed->outtype);
        typed->params.log      = console.callback();
        typed->params.progress = [&](uint64_t done, uint64_t total) {
            line.update(static_cast<int64_t>(done), static_cast<int64_t>(total));
            return !interrupted();
        };
        return run_cancellable([&] { convert(*typed); });
    };
}
