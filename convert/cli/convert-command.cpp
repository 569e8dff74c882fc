#include "commands.h"

#include "console.h"
#include "convert.h"
#include "interrupt.h"
#include "progress.h"
#include "run-flags.h"

#include <memory>

namespace {

using namespace buoy;

struct Typed {
    ConvertParams params;
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
        print_line("%-36s %-20s %5s -> %-6s %11.3f MB", printable(tensor.name).c_str(), shape_text(tensor.ne).c_str(),
                   ggml_type_name(tensor.from), ggml_type_name(tensor.to), static_cast<double>(tensor.n_bytes) / 1e6);
    }
    for (const std::string & path : result.paths) {
        print_text(path + "\n");
    }
    print_line("%zu tensors, %.3f MB in total, %.2f bits per weight", result.tensors.size(),
               static_cast<double>(result.n_bytes) / 1e6, static_cast<double>(n_bits) / static_cast<double>(n_all));
}

void print_errors(const ConvertResult & result) {
    constexpr size_t n_shown = 5;
    print_line("verified %zu tensors; largest errors:", result.errors.size());
    for (size_t i = 0; i < result.errors.size() && i < n_shown; ++i) {
        const TensorError & error = result.errors[i];
        print_line("%-36s %-6s NMSE %.3g, largest difference %.3g", printable(error.name).c_str(),
                   ggml_type_name(error.type), error.nmse, error.largest);
    }
}

void convert(const Typed & typed) {
    const ConvertParams & params = typed.params;
    const ConvertResult   result = convert_hf(params);
    if (params.dry_run || typed.verbose) {
        print_plan(result);
    } else {
        for (const std::string & path : result.paths) {
            print_text(path + "\n");
        }
    }
    if (params.verify && !params.dry_run) {
        print_errors(result);
    }
    if (result.logits) {
        print_line("logits: NMSE %.3g, same most likely token in %lld of %lld rows", result.logits->nmse,
                   static_cast<long long>(result.logits->n_agree), static_cast<long long>(result.logits->n_rows));
    }
}

void add_flags(FlagTable & table, Typed & typed) {
    ConvertParams & p         = typed.params;
    const auto      set_split = [&p](const std::string & where, const std::string & text) {
        p.split_max = parse_size(where, text);
    };
    std::string types;
    for (const std::string & name : outtype_names()) {
        types += (types.empty() ? "" : ", ") + name;
    }
    const auto set_outtype = [&p](const std::string &, const std::string & text) { p.outtype = parse_outtype(text); };
    table.group("Input and output");
    table
        .call(
            "input", "INPUT", [&p](const std::string &, const std::string & name) { p.input = resolve_model(name); },
            "Hugging Face directory, GGUF file, llama2.c .bin, or a bundled model's name")
        .is_required();
    table
        .text("-o, --output", "OUTPUT", p.output,
              "GGUF file to write, or a directory, where the file is named by convention")
        .is_required();
    table.call("--split-max-size", "SIZE", set_split, "split the output into files of at most SIZE, such as 500M or 2G")
        .with_setting("split_max");
    table.toggle("--force", p.force, true, "overwrite an existing file").with_setting("force");
    table.group("Model");
    table.call("--outtype", "TYPE", set_outtype, "type of the weights: " + types)
        .with_default("f16")
        .with_setting("outtype")
        .with_values(outtype_names());
    table
        .texts("--tensor-type", "REGEX=TYPE", p.tensor_types, 1,
               "use this type for tensors whose name matches; can be repeated")
        .with_setting("tensor_types");
    table.text("--imatrix", "FILE", p.imatrix, "importance matrix to use for quantisation");
    table.text("--mask-token", "TOKEN", p.mask_token, "mask token, as text or id, if the checkpoint does not name one");
    table
        .number("--block-length", "N", p.block_length, {1, whole_max},
                "block length of block-causal attention, if the config does not say")
        .with_default("");
    table
        .toggle("--force-causal", p.force_causal, true,
                "convert as an autoregressive model although the checkpoint's code is named like a diffusion model's")
        .with_setting("force_causal");
    table.group("Running");
    table.toggle("--dry-run", p.dry_run, true, "show what would be written, but write nothing");
    table.toggle("--verify", p.verify, true, "read the output back and compare its weights with the input");
    table.toggle(
        "--verify-logits", p.verify_logits, true,
        "run the model before and after quantisation and compare the logits (needs space for an unquantised copy)");
    add_threads_flag(table, p.n_threads);
    table.toggle("-v, --verbose", typed.verbose, true, "list every tensor");
}

} // namespace

void add_convert_command(Program & program) {
    const auto typed   = std::make_shared<Typed>();
    Command &  command = program.add("", "convert a checkpoint");
    add_flags(command.flags, *typed);
    command.run = [typed](const Command & itself) {
        const Console console("llama-diffusion-convert", itself.flags, typed->verbose);
        Progress      line("writing", {"MB", 1000000});
        typed->params.log      = console.callback();
        typed->params.progress = [&](uint64_t done, uint64_t total) {
            line.update(static_cast<int64_t>(done), static_cast<int64_t>(total));
            return !interrupted();
        };
        return run_cancellable([&] { convert(*typed); });
    };
}
