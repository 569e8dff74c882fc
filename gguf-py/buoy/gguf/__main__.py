"""python -m buoy.gguf FILE [TENSOR …]: the keys and tensors of a GGUF file, or the numbers of these tensors."""

import argparse
import sys

import numpy as np

from .reader import GgufError, read_gguf


def value_text(value):
    if isinstance(value, (list, np.ndarray)):
        shown = ", ".join(repr(v) if isinstance(v, str) else str(v) for v in value[:6])
        return f"[{shown}{', …' if len(value) > 6 else ''}], {len(value)} in all"
    text = repr(value)
    return text if len(text) <= 100 else text[:99] + "…"


def print_header(file):
    print(f"{file.path}: GGUF version {file.version}, {len(file.keys)} keys, {len(file.tensors)} tensors")
    for name, value in file.keys.items():
        print(f"{name} = {value_text(value)}")
    width = max(map(len, file.tensors), default=0)
    for tensor in file.tensors.values():
        print(f"{tensor.name:{width}}  {tensor.type:5}  {list(tensor.shape)}")


def main():
    parser = argparse.ArgumentParser("python -m buoy.gguf", description="Prints what is in a GGUF file.")
    parser.add_argument("file")
    parser.add_argument("tensor", nargs="*", help="print the numbers of this tensor instead")
    args = parser.parse_args()
    try:
        file = read_gguf(args.file)
        for name in args.tensor:
            if name not in file.tensors:
                raise GgufError(f"{args.file}: there is no tensor {name}")
            print(name, file.array(name))
    except (GgufError, OSError) as error:
        sys.exit(f"buoy.gguf: {error}")
    if not args.tensor:
        print_header(file)


if __name__ == "__main__":
    main()
