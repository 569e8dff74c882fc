#include "support/cli.h"

#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

namespace buoy::test {

Args operator+(Args args, const Args & more) {
    args.insert(args.end(), more.begin(), more.end());
    return args;
}

void check_refused(const ProgramResult & result, const std::string & culprit) {
    CAPTURE(result.err);
    CHECK(result.code == 1);
    CHECK(result.out == "");
    CHECK(result.is_one_line());
    CHECK(contains(result.err, culprit));
}

ProgramResult cli(const std::vector<std::string> & args, const std::string & input,
                  const std::map<std::string, std::string> & env) {
    ProgramSpec spec;
    spec.name = "llama-diffusion-cli";
    spec.args = args;
    spec.env  = env;
    spec.env.emplace("LLAMA_ARG_NO_PERF", "1");
    spec.env.emplace("LLAMA_ARG_THREADS", "1"); // the models are too small for more
    if (!input.empty()) {
        spec.input = write_file(temp_dir(), "input", input);
    }
    return run_program(spec);
}

nlohmann::json cli_json(std::vector<std::string> args) {
    args.push_back("--json");
    const ProgramResult result = cli(args);
    CAPTURE(result.err);
    CHECK(result.code == 0);
    CHECK(result.err == "");
    const nlohmann::json json = nlohmann::json::parse(result.out, nullptr, false);
    CHECK(json.is_object());
    return json.is_object() ? json : nlohmann::json::object();
}

const std::string & tiny_model(const std::string & arch) {
    static std::map<std::string, std::string> paths;
    std::string &                             path = paths[arch];
    if (path.empty()) {
        RandomModel model;
        model.arch    = arch;
        model.n_embd  = 32;
        model.n_layer = 1;
        path          = random_gguf(model);
    }
    return path;
}

std::string tiny_chat_model(const std::string & arch) {
    GgufBytes file = parse_gguf(read_file(tiny_model(arch)));
    file.text("tokenizer.chat_template",
              "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
              "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
    return write_file(temp_dir(), "chat.gguf", file.build());
}

} // namespace buoy::test
