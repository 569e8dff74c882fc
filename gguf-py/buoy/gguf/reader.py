"""The header of a GGUF file, its keys and where its tensors are; tensors are read when asked for."""

import math
import mmap
import os
from dataclasses import dataclass

import numpy as np

from . import quants

_SCALARS = {
    0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8", 11: "<i8", 12: "<f8",
}
_U32, _U64 = 4, 10
_TEXT, _ARRAY = 8, 9
_NAMES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K",
    12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 30: "BF16",
}


class GgufError(ValueError):
    """The file is not a valid GGUF file."""


@dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple  # outermost dimension first, as numpy has it
    type: str
    offset: int  # of its first byte in the file


@dataclass(frozen=True)
class Gguf:
    path: str
    version: int
    keys: dict
    tensors: dict  # by name

    def array(self, name):
        """The tensor's numbers: integers as they are, all else as float32. A type that is not known here is refused."""
        tensor = self.tensors[name]
        if tensor.type not in quants.LAYOUTS:
            raise GgufError(f"{self.path}: {name} is {tensor.type}, expected one of {', '.join(quants.LAYOUTS)}")
        length, block = quants.block_type(tensor.type)
        count = math.prod(tensor.shape)
        if (tensor.shape[-1] if tensor.shape else 1) % length != 0:
            raise GgufError(f"{self.path}: {name}: rows of {tensor.shape[-1]} do not fit {tensor.type}'s blocks of {length}")
        room = max(0, os.path.getsize(self.path) - tensor.offset)
        if count // length * block.itemsize > room:
            raise GgufError(f"{self.path}: {name} needs {count // length * block.itemsize} bytes, the file has {room} there")
        blocks = np.fromfile(self.path, block, count // length, offset=tensor.offset)
        return quants.unpack(tensor.type, blocks).reshape(tensor.shape)


class _Cursor:
    def __init__(self, data, path):
        self.data, self.path, self.at = data, path, 0

    def take(self, count):
        if count > len(self.data) - self.at:
            raise GgufError(f"{self.path}: the file ends at byte {len(self.data)}, inside its header")
        self.at += count
        return self.data[self.at - count : self.at]

    def numbers(self, kind, count):
        dtype = np.dtype(_SCALARS[kind])
        return np.frombuffer(self.take(count * dtype.itemsize), dtype)

    def number(self, kind):
        return self.numbers(kind, 1)[0].item()

    def text(self):
        return self.take(self.number(_U64)).decode("utf-8", "replace")

    def value(self, kind):
        if kind in _SCALARS:
            return self.number(kind)
        if kind == _TEXT:
            return self.text()
        if kind != _ARRAY:
            raise GgufError(f"{self.path}: value type {kind} is unknown")
        item, count = self.number(_U32), self.number(_U64)
        if item in _SCALARS:
            return self.numbers(item, count)
        if item != _TEXT or count > len(self.data) // 8:
            raise GgufError(f"{self.path}: an array of {count} values of type {item}, expected numbers or text")
        return [self.text() for _ in range(count)]


def read_gguf(path):
    """Keys and tensors of a file (of one part where it is split)."""
    with open(path, "rb") as file:
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise GgufError(f"{path}: the file is empty") from None
    with data:
        cursor = _Cursor(data, str(path))
        if cursor.take(4) != b"GGUF":
            raise GgufError(f"{path}: does not begin with GGUF")
        version = cursor.number(_U32)
        if version not in (2, 3):
            raise GgufError(f"{path}: version {version}, expected 2 or 3")
        n_tensors, n_keys = cursor.number(_U64), cursor.number(_U64)
        keys = {}
        for _ in range(n_keys):
            name = cursor.text()
            keys[name] = cursor.value(cursor.number(_U32))
        found = []
        for _ in range(n_tensors):
            name, n_dims = cursor.text(), cursor.number(_U32)
            if n_dims > 4:
                raise GgufError(f"{path}: {name} has {n_dims} dimensions, expected at most 4")
            dims = [cursor.number(_U64) for _ in range(n_dims)]
            kind, offset = cursor.number(_U32), cursor.number(_U64)
            found.append((name, tuple(reversed(dims)), _NAMES.get(kind, f"type {kind}"), offset))
        alignment = keys.get("general.alignment", 32)
        if not isinstance(alignment, (int, np.integer)) or alignment <= 0:
            raise GgufError(f"{path}: general.alignment is {alignment!r}")
        alignment = int(alignment)
        begin = -(-cursor.at // alignment) * alignment
    return Gguf(str(path), version, keys, {t[0]: Tensor(t[0], t[1], t[2], begin + t[3]) for t in found})
