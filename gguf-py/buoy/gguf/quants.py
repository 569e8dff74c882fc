"""Blocks of quantised weights as ggml packs them, unpacked to float32."""

import numpy as np

F16, U8, I8 = "<f2", "u1", "i1"


def _float(column):
    return column.astype(np.float32)


def _nibbles(bytes_):
    """[n, b] bytes to [n, 2b] numbers: the low halves of all, then the high halves."""
    return np.concatenate([bytes_ & 15, bytes_ >> 4], axis=1)


def _fifth_bits(words):
    """32 bits a block, bit i belongs to number i."""
    return (words >> np.arange(32, dtype=np.uint32) & 1).astype(np.uint8) << 4


def _q4_0(b):
    return _float(b["d"]) * (_float(_nibbles(b["qs"])) - 8)


def _q4_1(b):
    return _float(b["d"]) * _float(_nibbles(b["qs"])) + _float(b["m"])


def _q5_0(b):
    return _float(b["d"]) * (_float(_nibbles(b["qs"]) | _fifth_bits(b["qh"])) - 16)


def _q5_1(b):
    return _float(b["d"]) * _float(_nibbles(b["qs"]) | _fifth_bits(b["qh"])) + _float(b["m"])


def _q8_0(b):
    return _float(b["d"]) * _float(b["qs"])


def _scales_and_minima(s):
    """[n, 12] bytes to two arrays [n, 8] of 6 bits: four of each lie in the low bits, the rest is put together."""
    low, high, mixed = s[:, :4], s[:, 4:8], s[:, 8:]
    scales = np.concatenate([low & 63, mixed & 15 | low >> 6 << 4], axis=1)
    minima = np.concatenate([high & 63, mixed >> 4 | high >> 6 << 4], axis=1)
    return _float(scales), _float(minima)


def _k_numbers(b):
    """[n, 8, 32]: each 32 bytes hold two groups, one in the low halves, one in the high."""
    qs = b["qs"].reshape(-1, 4, 1, 32)
    return np.concatenate([qs & 15, qs >> 4], axis=2).reshape(-1, 8, 32)


def _k_scaled(b, numbers):
    scales, minima = _scales_and_minima(b["scales"])
    scales, minima = _float(b["d"]) * scales, _float(b["dmin"]) * minima
    return scales[:, :, None] * _float(numbers) - minima[:, :, None]


def _q4_k(b):
    return _k_scaled(b, _k_numbers(b))


def _q5_k(b):
    fifth = b["qh"][:, None, :] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    return _k_scaled(b, _k_numbers(b) | fifth << 4)


def _q6_k(b):
    ql = b["ql"].reshape(-1, 2, 1, 64)
    low = np.concatenate([ql & 15, ql >> 4], axis=2).reshape(-1, 2, 4, 32)
    high = b["qh"].reshape(-1, 2, 1, 32) >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3
    numbers = _float(low | high << 4) - 32
    scales = _float(b["d"]) * _float(b["scales"])
    return scales[:, :, None] * numbers.reshape(-1, 16, 16)


def _plain(b):
    return b["x"]


def _bf16(b):
    return (b["x"].astype("<u4") << 16).view("<f4")


_HALF = [("d", F16, 1)]
_HALVES = [("d", F16, 1), ("m", F16, 1)]
_K = [("d", F16, 1), ("dmin", F16, 1), ("scales", U8, 12)]

# name: (numbers in a block, its fields, how it is unpacked)
LAYOUTS = {
    "F32": (1, [("x", "<f4", 1)], _plain), "F16": (1, [("x", F16, 1)], _plain), "F64": (1, [("x", "<f8", 1)], _plain),
    "I8": (1, [("x", I8, 1)], _plain), "I16": (1, [("x", "<i2", 1)], _plain), "I32": (1, [("x", "<i4", 1)], _plain),
    "I64": (1, [("x", "<i8", 1)], _plain), "BF16": (1, [("x", "<u2", 1)], _bf16),
    "Q4_0": (32, _HALF + [("qs", U8, 16)], _q4_0), "Q4_1": (32, _HALVES + [("qs", U8, 16)], _q4_1),
    "Q5_0": (32, _HALF + [("qh", "<u4", 1), ("qs", U8, 16)], _q5_0),
    "Q5_1": (32, _HALVES + [("qh", "<u4", 1), ("qs", U8, 16)], _q5_1),
    "Q8_0": (32, _HALF + [("qs", I8, 32)], _q8_0),
    "Q4_K": (256, _K + [("qs", U8, 128)], _q4_k), "Q5_K": (256, _K + [("qh", U8, 32), ("qs", U8, 128)], _q5_k),
    "Q6_K": (256, [("ql", U8, 128), ("qh", U8, 64), ("scales", I8, 16), ("d", F16, 1)], _q6_k),
}


def block_type(name):
    """The numbers in a block and its dtype."""
    length, fields, _ = LAYOUTS[name]
    return length, np.dtype([(field, kind, (count,)) for field, kind, count in fields])


def unpack(name, blocks):
    """Blocks of that type to a flat array: integers stay what they are, all else is float32 (F64: float64)."""
    values = LAYOUTS[name][2](blocks).reshape(-1)
    return values.astype(np.float32) if values.dtype == np.float16 else np.ascontiguousarray(values)
