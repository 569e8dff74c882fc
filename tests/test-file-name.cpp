// The gate for names: text of a file never leads a path anywhere.

#include "base/file-name.h"
#include "size-label.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/random-context.h"
#include "support/run-program.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

using namespace buoy;
using namespace buoy::test;

namespace {

namespace fs = std::filesystem;

// What no name may hold or be, whatever it was made of.
void check_harmless(const std::string & name, const std::string & text) {
    CAPTURE(text);
    CAPTURE(name);
    CHECK_FALSE(name.empty());
    CHECK(name.size() <= 255 - std::string("-00001-of-00002.gguf.source.part").size());
    CHECK(name.find_first_of("/\\:*?\"<>|") == std::string::npos);
    CHECK(name.find("..") == std::string::npos);
    CHECK(name[0] != '.');
    CHECK(name[0] != '-');
    for (const char c : name) {
        CHECK(static_cast<unsigned char>(c) >= 0x20);
        CHECK(c != 0x7f);
    }
    CHECK(fs::path(name).filename() == name);
    CHECK(is_file_name(name));
}

const std::vector<std::string> hostile = {
    "../../etc/passwd",
    "/etc/passwd",
    "..",
    ".",
    "",
    "...",
    "..\\..\\windows",
    "C:\\x",
    "a/../../b",
    "a\nb",
    std::string("a\0b", 3),
    "\x1b]0;title\x07",
    "\x7f\x80\xff",
    "\xc2\x9b"
    "31m",
    "\xe2\x80\xae"
    "fdp.exe",
    "-rf",
    "--output=x",
    ".bashrc",
    "~root",
    "$(id)",
    "`id`",
    "a;b|c>d",
    "a..b",
    std::string(5000, 'x'),
    std::string(200, '/') + "x",
    std::string(4, '.') + "/" + std::string(300, '.'),
    std::string(1000, '\xe6'),
    "\xe6\xa8\xa1\xe5\x9e\x8b/7B",
    "name ",
    "name.",
};

} // namespace

TEST_CASE("file names: hostile text becomes one harmless component") {
    for (const std::string & text : hostile) {
        check_harmless(file_name_of(text, "model"), text);
        CHECK(file_name_of(text, "model") == file_name_of(file_name_of(text, "model"), "model"));
        check_harmless(file_name(text, text, "F16"), text);
        check_harmless(file_name("model", text, "F16"), text);
    }
}

TEST_CASE("file names: what is harmless stays") {
    for (const char * name : {"LLaDA-8B-Instruct", "a_b.c", "x", "7B", "\xe6\xa8\xa1\xe5\x9e\x8b"}) {
        CHECK(file_name_part(name) == name);
    }
    CHECK(file_name_part("My model") == "My-model");
    CHECK(file_name_of("../..", "model") == "model");
    CHECK(file_name_part("../..").empty());
    CHECK(file_name_part(std::string(300, 'x')).size() == file_name_length_max);
    // a character is never cut in half
    const std::string three_bytes = "\xe6\xa8\xa1";
    CHECK(file_name_part("a" + three_bytes + three_bytes, 6) == "a" + three_bytes);
}

TEST_CASE("file names: Windows' devices are none") {
    for (const char * name : {"con", "NUL", "Aux.txt", "prn", "COM1", "lpt9.tar.gz", "com0", "COM\xc2\xb9"}) {
        CAPTURE(name);
        CHECK(file_name_part(name) == std::string("_") + name);
    }
    for (const char * name : {"console", "nul-F16", "com", "com10", "lpt", "auxiliary.txt"}) {
        CHECK(file_name_part(name) == name);
    }
}

TEST_CASE("file names: a shard lies beside its index") {
    for (const char * name : {"model-00001-of-00002.safetensors", ".hidden", "a b"}) {
        CHECK(is_file_name(name));
    }
    for (const std::string & name :
         {std::string("../x"), std::string("a/b"), std::string("/x"), std::string("a\\b"), std::string("."),
          std::string(".."), std::string(), std::string("a\0b", 3), std::string("a\x1b[0m"), std::string(300, 'x')}) {
        CHECK_FALSE(is_file_name(name));
    }
}

TEST_CASE("llama-diffusion-convert: names in a GGUF file stay in the output directory") {
    const GgufBytes good = parse_gguf(read_file(random_gguf(small_model("llada"))));
    for (const char * key : {"general.name", "general.size_label", "general.finetune", "general.basename"}) {
        for (const std::string & text :
             {std::string("/../../escaped"), std::string("../../escaped"), std::string("x/y"), std::string("a\\b"),
              std::string("a\x1b]0;x\x07"), std::string(3000, '7') + "B", std::string(200000, '1')}) {
            CAPTURE(key);
            CAPTURE(text.substr(0, 40));
            const std::string root = temp_dir();
            fs::create_directories(root + "/d/out");
            fs::create_directories(root + "/d/out/model-"); // what a path with ".." would pass through
            GgufBytes evil = good;
            std::erase_if(evil.pairs, [&](const GgufBytes::Pair & pair) { return pair.key == key; });
            evil.text(key, text);
            const std::string input = buoy::test::write_file(root, "evil.gguf", evil.build());

            ProgramSpec spec;
            spec.name                  = "llama-diffusion-convert";
            spec.args                  = {input, "-o", root + "/d/out", "--outtype", "q8_0"};
            const ProgramResult result = run_program(spec);
            CAPTURE(result.err);
            CHECK(result.code == 0);
            CHECK(result.out.find('\x1b') == std::string::npos);
            size_t n_files = 0;
            for (const auto & entry : fs::recursive_directory_iterator(root)) {
                if (entry.is_regular_file() && entry.path() != input) {
                    n_files++;
                    CHECK(entry.path().parent_path() == root + "/d/out");
                }
            }
            CHECK(n_files == 1);
        }
    }
}
