// The Python package against files that our own code wrote.

#include "support/cli.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/python.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace buoy::test;

namespace {

bool ready() {
    if (numpy_python().empty()) {
        MESSAGE("skipped: no Python with numpy");
        return false;
    }
    return true;
}

const std::string import_package = "import sys, json\nsys.path.insert(0, '" + source_dir() +
                                   "/gguf-py')\n"
                                   "sys.dont_write_bytecode = True\n"
                                   "from buoy_gguf import *\n";

} // namespace

TEST_CASE("gguf-py: a model's header and weights") {
    if (!ready()) {
        return;
    }
    const nlohmann::json json = nlohmann::json::parse(run_python(import_package + R"(
m = read_gguf(sys.argv[1])
t = m.tensors["token_embd.weight"]
print(json.dumps({"arch": m.keys["general.architecture"], "layers": m.keys["llada.block_count"],
                  "tokens": len(m.keys["tokenizer.ggml.tokens"]), "types": str(m.keys["tokenizer.ggml.token_type"].dtype),
                  "shape": t.shape, "type": t.type, "offset": t.offset,
                  "first": float(m.array("token_embd.weight")[0, 0]), "n": len(m.tensors)}))
)",
                                                                 {tiny_model("llada")}));
    const GgufBytes      file = parse_gguf(read_file(tiny_model("llada")));
    CHECK(json["arch"] == "llada");
    CHECK(json["layers"] == 1);
    CHECK(json["n"] == file.tensors.size());
    CHECK(json["shape"] == nlohmann::json({320, 32}));
    CHECK(json["type"] == "F32");
    CHECK(json["types"] == "int32");
    float first = 0.0f;
    std::memcpy(&first, read_file(tiny_model("llada")).data() + json["offset"].get<size_t>(), sizeof(first));
    CHECK(json["first"].get<float>() == first);
}

TEST_CASE("gguf-py: every value type, and files that are none") {
    if (!ready()) {
        return;
    }
    const std::string sample = gguf_sample().build();
    const std::string path   = write_file(temp_dir(), "sample.gguf", sample);
    const std::string out    = run_python(import_package + R"(
m = read_gguf(sys.argv[1])
print(len(m.keys), len(m.tensors))
data = open(sys.argv[1], "rb").read()
for cut in [b"", b"GGUF", b"FUGG" + data[4:]] + [data[:n] for n in range(4, min(len(data), 1500), 7)]:
    open(sys.argv[2], "wb").write(cut)
    try:
        m = read_gguf(sys.argv[2])
        assert len(cut) > 500, len(cut)
    except GgufError:
        pass
)",
                                          {path, temp_dir() + "/cut.gguf"});
    CHECK(out ==
          std::to_string(gguf_sample().pairs.size()) + " " + std::to_string(gguf_sample().tensors.size()) + "\n");
}

TEST_CASE("gguf-py: a recording") {
    if (!ready()) {
        return;
    }
    const std::string path = temp_dir() + "/run.npz";
    REQUIRE(cli({"-m", tiny_model("llada"), "--raw", "-p", "abc", "-n", "4", "--attn-dump", path, "--attn-reduce",
                 "none", "--attn-dtype", "f32", "--attn-taps", "pattern,q"})
                .code == 0);
    const nlohmann::json json = nlohmann::json::parse(run_python(import_package + R"(
with Recording(sys.argv[1]) as run:
    pattern = run.attn(3, 0)
    print(json.dumps({"steps": run.steps(), "layers": run.layers("q"), "arch": run.meta["model"]["arch"],
                      "tokens": run.tokens.shape, "unmask": sorted(run.unmask_step.tolist()), "confidence": run.confidence.shape,
                      "pattern": pattern.shape, "sums": float(abs(pattern.sum(-1) - 1).max()), "rows": run.rows(2).tolist(),
                      "received": abs(float(run.received(3, 0).sum()) - 1),
                      "regions": {r.name: r.positions().tolist() for r in run.regions}}))
)",
                                                                 {path}));
    CHECK(json["steps"] == nlohmann::json({0, 1, 2, 3}));
    CHECK(json["layers"] == nlohmann::json({0}));
    CHECK(json["arch"] == "llada");
    CHECK(json["tokens"] == nlohmann::json({5, 7}));
    CHECK(json["unmask"] == nlohmann::json({-1, -1, -1, 0, 1, 2, 3}));
    CHECK(json["confidence"] == nlohmann::json({4, 7}));
    CHECK(json["pattern"][1] == 7);
    CHECK(json["sums"] < 1e-5);
    CHECK(json["received"] < 1e-5);
    CHECK(json["rows"] == nlohmann::json({0, 1, 2, 3, 4, 5, 6}));
    CHECK(json["regions"] == nlohmann::json({{"user", {0, 1, 2}}, {"answer", {3, 4, 5, 6}}}));
}
