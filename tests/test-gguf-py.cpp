// The Python package against files that our own code wrote.

#include "io/gguf-file.h"
#include "support/cli.h"
#include "support/gguf-bytes.h"
#include "support/hf-dir.h"
#include "support/paths.h"
#include "support/python.h"
#include "support/skip.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <random>

using namespace buoy;
using namespace buoy::test;

namespace {

bool ready() {
    if (numpy_python().empty()) {
        skip("no Python with numpy");
        return false;
    }
    return true;
}

const std::string import_package = "import sys, json\nsys.path.insert(0, '" + source_dir() +
                                   "/gguf-py')\n"
                                   "sys.dont_write_bytecode = True\n"
                                   "from buoy import *\nfrom buoy.gguf import *\n";

// The same tensors as F32, unpacked by ggml.
std::string unpacked_by_ggml(const std::string & path) {
    const GgufFile file = GgufFile::open(path);
    GgufBytes      out;
    for (const GgufTensor & tensor : file.tensors()) {
        const int64_t      n = tensor.ne[0] * tensor.ne[1] * tensor.ne[2] * tensor.ne[3];
        std::vector<float> values(static_cast<size_t>(n));
        std::string        bytes(tensor.size, '\0');
        file.file(tensor.file).read(tensor.offset, bytes.data(), bytes.size());
        if (tensor.type == GGML_TYPE_F32) {
            std::memcpy(values.data(), bytes.data(), bytes.size());
        } else {
            ggml_get_type_traits(tensor.type)->to_float(bytes.data(), values.data(), n);
        }
        out.tensor(tensor.name, GGML_TYPE_F32, {tensor.ne.begin(), tensor.ne.begin() + tensor.n_dims});
        out.tensor(tensor.name)
            .data.assign(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(float));
    }
    return write_file(temp_dir(), "unpacked.gguf", out.build());
}

// Every tensor of the file as the package unpacks it is what ggml makes of it; returns the types that were met.
// ggml may fuse a product and a sum, which costs the last bit.
std::string check_unpacked(const std::string & path) {
    return run_python(import_package + R"(
import numpy as np
m, want = read_gguf(sys.argv[1]), read_gguf(sys.argv[2])
assert list(m.tensors) == list(want.tensors) and len(m.tensors) > 0
for name, tensor in m.tensors.items():
    a, b = m.array(name), want.array(name)
    assert a.dtype == np.float32 and a.shape == b.shape and abs(b).max() > 0, (name, a.dtype, a.shape, b.shape)
    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7 * abs(b).max(), err_msg=name)
print(" ".join(sorted({t.type for t in m.tensors.values()})))
)",
                      {path, unpacked_by_ggml(path)});
}

} // namespace

TEST_CASE("gguf-py: quantised tensors are unpacked as ggml does") {
    if (!ready()) {
        return;
    }
    std::mt19937                    random(1);
    std::normal_distribution<float> normal;
    const int64_t                   n_columns = 512, n_rows = 3;
    std::vector<float>              source(static_cast<size_t>(n_columns * n_rows));
    std::generate(source.begin(), source.end(), [&] { return normal(random); });

    GgufBytes file;
    for (ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
                           GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K}) {
        const std::string name = ggml_type_name(type);
        file.tensor(name, type, {n_columns, n_rows});
        file.tensor(name).data.resize(ggml_row_size(type, n_columns) * n_rows);
        ggml_quantize_chunk(type, source.data(), file.tensor(name).data.data(), 0, n_rows, n_columns, nullptr);
    }
    const std::string path = write_file(temp_dir(), "types.gguf", file.build());
    CHECK(check_unpacked(path) == "BF16 F16 F32 Q4_0 Q4_1 Q4_K Q5_0 Q5_1 Q5_K Q6_K Q8_0\n");

    file.tensor("q2_K", GGML_TYPE_Q2_K, {n_columns, n_rows});
    file.tensor("f32").offset = 1 << 20;
    const std::string broken  = write_file(temp_dir(), "broken.gguf", file.build());
    CHECK(run_python(import_package + R"(
for name in ["q2_K", "f32"]:
    try:
        read_gguf(sys.argv[1]).array(name)
    except GgufError as error:
        print(str(error).split(": ", 1)[1])
)",
                     {broken}) ==
          "q2_K is Q2_K, expected one of F32, F16, F64, I8, I16, I32, I64, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, "
          "Q5_K, Q6_K\nf32 needs 6144 bytes, the file has 0 there\n");
}

TEST_CASE("gguf-py: what our converter writes") {
    if (!ready()) {
        return;
    }
    const std::string dir = tiny_checkpoint("LLaDAModelLM").write();
    // a type, and what tensors have then; rows are too short for the blocks of K-quants
    for (const auto & [type, name] : {std::pair{"f32", "F32"},
                                      {"f16", "F16"},
                                      {"bf16", "BF16"},
                                      {"q8_0", "Q8_0"},
                                      {"q4_0", "Q4_0"},
                                      {"q4_k_m", "Q5_0"},
                                      {"q5_k_m", "Q5_1"}}) {
        CAPTURE(type);
        ProgramSpec spec;
        spec.name              = "llama-diffusion-convert";
        const std::string path = temp_dir() + "/" + type + ".gguf";
        spec.args              = {dir, "-o", path, "--outtype", type};
        REQUIRE(run_program(spec).code == 0);
        CHECK(contains(check_unpacked(path), name));
    }
}

TEST_CASE("gguf-py: python -m buoy.gguf") {
    if (!ready()) {
        return;
    }
    const std::string run    = import_package + R"(
import runpy
sys.argv[0] = "buoy.gguf"
runpy.run_module("buoy.gguf", run_name="__main__")
)";
    const std::string header = run_python(run, {tiny_model("llada")});
    for (const char * part :
         {"general.architecture = 'llada'", "llada.block_count = 1", "in all", "token_embd.weight", "[320, 32]"}) {
        CAPTURE(part);
        CHECK(contains(header, part));
    }
    const std::string numbers = run_python(run, {tiny_model("llada"), "output_norm.weight"});
    CHECK(contains(numbers, "output_norm.weight ["));
}

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
    pattern = run.pattern(3, 0)
    print(json.dumps({"steps": run.steps, "layers": run.layers, "heads": run.heads, "arch": run.meta["model"]["arch"],
                      "tokens": run.tokens.shape, "unmask": sorted(run.unmask_step.tolist()), "confidence": run.confidence.shape,
                      "pattern": pattern.shape, "sums": float(abs(pattern.sum(-1) - 1).max()), "rows": run.rows(2).tolist(),
                      "received": float(abs(run.received(0, 3) - pattern.mean((0, 1))).max()), "q": run.get("q", 0, 0).shape,
                      "committed": sorted(int(p) for step in run for p in step.committed),
                      "before": [int((step.tokens == run.meta["model"]["mask_id"]).sum()) for step in run],
                      "regions": {r.name: r.positions().tolist() for r in run.regions}}))
)",
                                                                 {path}));
    CHECK(json["steps"] == nlohmann::json({0, 1, 2, 3}));
    CHECK(json["layers"] == nlohmann::json({0}));
    CHECK(json["heads"] == nlohmann::json({0, 1, 2, 3}));
    CHECK(json["arch"] == "llada");
    CHECK(json["tokens"] == nlohmann::json({5, 7}));
    CHECK(json["unmask"] == nlohmann::json({-1, -1, -1, 0, 1, 2, 3}));
    CHECK(json["confidence"] == nlohmann::json({4, 7}));
    CHECK(json["pattern"] == nlohmann::json({4, 7, 7}));
    CHECK(json["q"] == nlohmann::json({4, 7, 8}));
    CHECK(json["sums"] < 1e-5);
    CHECK(json["received"] < 1e-7);
    CHECK(json["committed"] == nlohmann::json({3, 4, 5, 6}));
    CHECK(json["before"] == nlohmann::json({4, 3, 2, 1}));
    CHECK(json["rows"] == nlohmann::json({0, 1, 2, 3, 4, 5, 6}));
    CHECK(json["regions"] == nlohmann::json({{"user", {0, 1, 2}}, {"answer", {3, 4, 5, 6}}}));
}

TEST_CASE("gguf-py: the numbers are llama-attention's") {
    if (!ready()) {
        return;
    }
    std::vector<std::string> args = {bin_dir() + "/llama-attention"};
    for (const Args & one : {Args{"llada"}, Args{"llama"}, Args{"llada", "--attn-reduce", "received"},
                             Args{"llama", "--attn-reduce", "received", "--attn-dtype", "f32"},
                             Args{"llada", "--diffusion-cache", "dual", "--diffusion-block-length", "4"},
                             Args{"llada", "--attn-reduce", "none", "--attn-heads", "1,3"}}) {
        args.push_back(temp_dir() + "/run-" + std::to_string(args.size()) + ".npz");
        REQUIRE(cli(Args{"-m", tiny_model(one[0]), "-p", "the cat, sat.", "-n", "8", "--ignore-eos", "--attn-dump",
                         args.back()} +
                    Args(one.begin() + 1, one.end()))
                    .code == 0);
    }
    const std::string out = run_python(import_package + R"(
import subprocess
import numpy as np
def attention(*args):
    return json.loads(subprocess.check_output([sys.argv[1], *args, "--json"]))["recordings"][0]
n = 0
for path in sys.argv[2:]:
    with Recording(path) as run:
        for rule in ["auto", "code", "std", "std:1.5", "above:0.01", "bos", "top-k:3"]:
            want = attention("absorption", path, "--rule", rule)["by_layer"]["absorption"]
            np.testing.assert_allclose(run.absorption(rule), want, rtol=1e-9)
            step = run.steps[len(run.steps) // 2]
            want = attention("absorption", path, "--rule", rule, "--step", str(step))["by_layer"]["absorption"]
            np.testing.assert_allclose(run.absorption(rule, step), want, rtol=1e-9)
        temporal = run.temporal()
        want = attention("temporal", path, "--rule", "std:1")
        for step, ours, A, anchors in zip(run, temporal, want["received"], want["anchors"]):
            np.testing.assert_allclose(ours[:len(A)], A, rtol=1e-9)
            np.testing.assert_allclose(step.received(), A, rtol=1e-9)
            assert np.isnan(ours[len(A):]).all() and find_anchors(A, "std:1").tolist() == anchors
            n += 1
    plain = np.load(path)
    np.savez_compressed(path + ".again.npz", **{name: plain[name] for name in plain.files})
    with Recording(path + ".again.npz") as again:
        np.testing.assert_array_equal(again.temporal(), temporal)
print(n)
)",
                                       args);
    CHECK(out == std::to_string(8 * (args.size() - 1)) + "\n");
}

TEST_CASE("gguf-py: arrays by TransformerLens's names, with a step axis and labels") {
    if (!ready()) {
        return;
    }
    std::vector<std::string> args;
    for (const Args & one : {Args{"llada"}, Args{"llada", "--diffusion-cache", "dual", "--diffusion-block-length", "4"},
                             Args{"llama", "--attn-heads", "1,3"}}) {
        args.push_back(temp_dir() + "/names-" + std::to_string(args.size()) + ".npz");
        REQUIRE(cli(Args{"-m", tiny_model(one[0]), "-p", "the cat, sat.", "-n", "8", "--ignore-eos", "--attn-dump",
                         args.back(), "--attn-reduce", "none", "--attn-taps", "pattern,scores,q,k,resid"} +
                    Args(one.begin() + 1, one.end()))
                    .code == 0);
    }
    const std::string out = run_python(import_package + R"(
import numpy as np
members = {"attn.hook_pattern": "attn", "attn.hook_attn_scores": "scores", "attn.hook_rot_q": "q", "attn.hook_rot_k": "k", "hook_resid_post": "resid"}
dims = {"attn": "step head query key", "scores": "step head query key", "q": "step query head dim", "k": "step key head_kv dim", "resid": "step query dim"}
for path in sys.argv[1:]:
    with Recording(path) as run:
        assert run.names() == [f"blocks.{l}.{hook}" for l in run.layers for hook in members]
        assert path in repr(run) and "positions" in repr(run) and len(run.pieces) == run.meta["n_positions"]
        for hook, kind in members.items():
            array = run["blocks.0." + hook]
            assert " ".join(array.dims) == dims[kind], array.dims
            for step in run.steps_with_rows:
                got, want = array.sel(step=step), run.get(kind, step, 0)
                if "query" in got.dims:
                    got = got.sel(query=run.rows(step))
                if "key" in got.dims:
                    got = got.isel(key=slice(0, want.shape[{"attn": 2, "scores": 2, "k": 1}[kind]]))
                got = np.asarray(got)
                np.testing.assert_array_equal(got.transpose(1, 0, 2) if kind in "qk" else got, want)
            # whatever the step did not compute is unknown, not zero
            n_known = sum(run.get(kind, step, 0).size for step in run.steps_with_rows)
            assert np.isnan(array.values).sum() == array.values.size - n_known, (path, kind)
        pattern = run["blocks.0.attn.hook_pattern"]
        first, head = run.steps_with_rows[0], run.heads[-1]
        mean = pattern.sel(step=first).mean("head")
        assert mean.dims == ("query", "key") and pattern.sel(head=[head]).shape[1] == 1
        want = run.get("attn", first, 0)
        np.testing.assert_allclose(mean.sel(query=run.rows(first)).values[:, :want.shape[2]], want.mean(0), rtol=1e-5)
        assert np.isnan(mean.values).sum() == mean.values.size - want[0].size and np.isnan(mean.sum("key").values).sum() == mean.shape[0] - want.shape[1]
        for wrong in [lambda: run["blocks.9.attn.hook_pattern"], lambda: run["hook_embed"], lambda: pattern.sel(layer=0),
                      lambda: pattern.sel(step=99)]:
            try:
                wrong()
                assert False
            except KeyError:
                pass
print("ok")
)",
                                       args);
    CHECK(out == "ok\n");
}

TEST_CASE("gguf-py: run() generates, records and says what went wrong") {
    if (!ready()) {
        return;
    }
    const std::string out =
        run_python(import_package + R"(
import os
program, model, kept = sys.argv[1:]
r = run("the cat", model=model, program=program, n=6, temp=0, ignore_eos=True, attn_reduce="none", attn_edit=["drop keys=0"])
path = r.path
assert r.result["recording"]["path"] == path and len(r.result["tokens"]) == 6 and r.meta["edits"] == ["drop keys=0"]
assert r["blocks.0.attn.hook_pattern"].shape[0] == len(r.steps) and os.path.exists(path)
del r
assert not os.path.exists(os.path.dirname(path))
assert run("the cat", model=model, program=program, path=kept, n=6).path == kept and os.path.exists(kept)
try:
    run("the cat", model=model, program=program, no_such_flag=1)
    assert False
except ProgramError as error:
    assert error.code == 1 and "--no-such-flag" in str(error), error
try:
    run("the cat", program="no-such-program")
    assert False
except FileNotFoundError as error:
    assert "no-such-program" in str(error)
print("ok")
)",
                   {bin_dir() + "/llama-diffusion-cli", tiny_model("llada"), temp_dir() + "/kept.npz"});
    CHECK(out == "ok\n");
}

TEST_CASE("gguf-py: a wheel is built without a network") {
    if (!ready()) {
        return;
    }
    const std::string out = run_python(R"(
import importlib.util, os, shutil, subprocess, sys, zipfile
if not all(importlib.util.find_spec(name) for name in ["pip", "setuptools", "wheel"]):
    print("skipped")
    sys.exit()
shutil.copytree(sys.argv[1], sys.argv[2] + "/gguf-py", symlinks=False)
subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", sys.argv[2],
                sys.argv[2] + "/gguf-py"], check=True)
(wheel,) = [name for name in os.listdir(sys.argv[2]) if name.endswith(".whl")]
names = zipfile.ZipFile(sys.argv[2] + "/" + wheel).namelist()
for part in ["metrics", "plot", "program", "labelled", "recording", "gguf/__init__"]:
    assert f"buoy/{part}.py" in names, names
print("ok")
)",
                                       {source_dir() + "/gguf-py", temp_dir()});
    if (out == "skipped\n") {
        skip("no pip, setuptools and wheel");
        return;
    }
    CHECK(out == "ok\n");
}

TEST_CASE("gguf-py: the example draws a figure") {
    if (!ready()) {
        return;
    }
    if (run_python("import importlib.util\nprint(importlib.util.find_spec('matplotlib') is not None)\n", {}) !=
        "True\n") {
        skip("no matplotlib");
        return;
    }
    const std::string path = temp_dir() + "/run.npz";
    REQUIRE(cli({"-m", tiny_model("llama"), "-p", "abc", "-n", "4", "--attn-dump", path}).code == 0);
    run_python(import_package + "sys.argv[0] = '" + source_dir() +
                   "/gguf-py/examples/figure.py'\nimport runpy\nrunpy.run_path(sys.argv[0], run_name='__main__')\n",
               {path, path + ".png"});
    CHECK(contains(read_file(path + ".png").substr(0, 8), "PNG"));

    const std::string whole = temp_dir() + "/whole.npz";
    REQUIRE(
        cli({"-m", tiny_model("llada"), "-p", "abc", "-n", "4", "--attn-dump", whole, "--attn-reduce", "none"}).code ==
        0);
    run_python(import_package + R"(
import matplotlib
matplotlib.use("Agg")
import numpy as np
from buoy import plot
with Recording(sys.argv[1]) as a, Recording(sys.argv[2]) as b:
    shown = plot.temporal(b, rule="std:1").images[0].get_array()
    np.testing.assert_array_equal(np.asarray(shown), b.temporal())
    np.testing.assert_array_equal(np.asarray(plot.pattern(b, 1, 0, head=2).images[0].get_array()), b.pattern(1, 0)[2])
    np.testing.assert_allclose(np.asarray(plot.pattern(b, 1, 0).images[0].get_array()), b.pattern(1, 0).mean(0), rtol=1e-5)
    lines = plot.absorption(a, b, rule="std:1").lines
    for line, run in zip(lines, [a, b]):
        np.testing.assert_allclose(line.get_ydata(), run.absorption("std:1"))
    assert len(plot.commits(b).collections[0].get_offsets()) == 4
)",
               {path, whole});
}
