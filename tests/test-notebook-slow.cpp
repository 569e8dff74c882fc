// The notebook of gguf-py, executed from its first cell to its last.

#include "support/cli.h"
#include "support/paths.h"
#include "support/python.h"
#include "support/skip.h"

#include <doctest/doctest.h>

using namespace buoy::test;

TEST_CASE("notebook: runs, draws, and its sentences are its numbers") {
    if (numpy_python().empty() ||
        run_python("import importlib.util\n"
                   "print(all(importlib.util.find_spec(n) for n in ['nbclient', 'ipykernel', 'matplotlib']))\n",
                   {}) != "True\n") {
        skip("needs Python with numpy, matplotlib, nbclient and ipykernel");
        return;
    }
    const std::string out = run_python(R"(
import os, re, sys, warnings
warnings.simplefilter("ignore")
import nbclient, nbformat
source, programs = sys.argv[1:]
os.environ["PYTHONPATH"] = source + "/gguf-py"
os.environ["PATH"] = programs + ":" + os.environ["PATH"]
os.environ["PYTHONDONTWRITEBYTECODE"] = os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
book = nbformat.read(source + "/gguf-py/examples/floating.ipynb", 4)
assert not any(cell.get("outputs") for cell in book.cells), "the notebook is kept without outputs"
nbclient.NotebookClient(book, timeout=500, kernel_name="python3", resources={"metadata": {"path": source}}).execute()
outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
assert sum("image/png" in output.get("data", {}) for output in outputs) == 3, outputs
text = "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")
table = dict(re.findall(r"^(buoy-\w+) +([\d. nan]+)$", text, re.M))
said = re.findall(r"(buoy-\w+): anchors in (\d+) % of .* in (\d+) % of the pairs", text)
assert len(said) == len(table) == 2, text
for model, share, moved in said:
    numbers = [float(number) for number in table[model].split()]
    assert abs(100 * numbers[0] - int(share)) <= 0.55 and abs(100 * numbers[2] - int(moved)) <= 0.55, text
print("ok")
)",
                                       {source_dir(), bin_dir()});
    CHECK(contains(out, "ok\n"));
}
