#!/usr/bin/env python3
"""Packs the checkpoints of a set of oracles: pack.py SET… OUTPUT.

Their weights are numbers that PyTorch's generator drew from a seed, times a factor. A packed checkpoint holds seed, factors and by how
many units in the last place PyTorch's float arithmetic differs from drawn() below; unpack.cpp makes the same bytes of it again.
Every other file is copied.
"""

import gzip
import json
import pathlib
import shutil
import struct
import sys
import zlib

import numpy as np

# The seed of a checkpoint, and of a tensor that has its own.
SEEDS = {
    "llada": 11, "llada-256-bf16": 12, "dream": 31, "llama": 51, "llama32-rope-scaled-tied": 52, "qwen2": 53, "qwen3-tied": 54,
    "sdar": 71, "llada-moe": 91, "llada2-moe": 111, "llada21-moe": 113, "rnd1": 131, "fast-dllm-v2": 151, "diffusion-gemma": 2101,
    "nemotron-labs-diffusion": 3101, "diffusion_head.weight": 3106, "stable-diffcoder": 4101, "illada": 5101,
}  # fmt: skip
FIRST = {"nemotron-labs-diffusion": 34816}  # draws that its other head took
f32 = np.float32


def log(x):
    """Natural logarithm in operations that every machine rounds alike."""
    m, e = np.frexp(x)
    low = m < 0.7071067811865476
    m, e = np.where(low, m * 2.0, m), np.where(low, e - 1, e)
    s = (m - 1.0) / (m + 1.0)
    sum_ = np.zeros_like(s)
    for k in range(17, -1, -1):
        sum_ = sum_ * (s * s) + 1.0 / (2.0 * k + 1.0)
    return 2.0 * s * sum_ + e * 0.6931471805599453


def cos_sin(x):
    """The same for 0 ≤ x < 2π."""
    quarter = np.floor(x * 0.6366197723675814 + 0.5)
    y = (x - quarter * 1.5707963267948966) - quarter * 6.123233995736766e-17
    cos, sin = np.zeros_like(y), np.zeros_like(y)
    for k in range(9, 0, -1):
        cos = (cos + 1.0) * -(y * y) / ((2.0 * k - 1.0) * (2.0 * k))
        sin = (sin + 1.0) * -(y * y) / ((2.0 * k) * (2.0 * k + 1.0))
    cos, sin = cos + 1.0, (sin + 1.0) * y
    quarter = quarter.astype(int) % 4
    return (
        np.choose(quarter, [cos, -sin, -cos, sin]),
        np.choose(quarter, [sin, cos, -sin, -cos]),
    )


def drawn(words):
    """Normal numbers from the generator's words: of 16 words the first 8 are radii, the others angles."""
    uniform = ((words & 0xFFFFFF) / 2.0**24).reshape(-1, 16)
    radius = np.sqrt(f32(-2) * f32(log(1.0 - uniform[:, :8])))
    cos, sin = cos_sin((f32(6.2831853071795864) * f32(uniform[:, 8:])).astype(np.float64))
    return np.concatenate([radius * f32(cos), radius * f32(sin)], axis=1).ravel()


def ordered(values, type_):
    """Floats as integers in the same order."""
    bits = values.view(np.int32) >> (16 if type_ == "BF16" else 0)
    return np.where(bits < 0, -(bits & (0x7FFF if type_ == "BF16" else 0x7FFFFFFF)), bits)


def rounded(values, type_):
    if type_ != "BF16":
        return values
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(f32)


def fitted(values, normal):
    """(mean, factor) of values = mean + factor · normal in float arithmetic."""
    columns = np.stack([np.ones(normal.size), normal.astype(float)], axis=1)
    mean, factor = np.linalg.lstsq(columns, values.astype(float), rcond=None)[0]
    mean = round(mean, 2) if abs(mean) > 0.1 else 0.0
    if mean != 0:
        factor = round(factor, 4)
    return mean, float(f32(factor))


def predicted(normal, mean, factors):
    scaled = normal * factors.astype(f32)
    return scaled + f32(mean) if mean != 0 else scaled


def begins_with(values, normal):
    columns = np.stack([np.ones(normal.size), normal.astype(float)], axis=1)
    wanted = values[: normal.size].astype(float)
    return np.abs(columns @ np.linalg.lstsq(columns, wanted, rcond=None)[0] - wanted).max() < 0.01 * wanted.std()


def as_draws(values, shape, type_, words, draw):
    """The tensor as draws, with its differences; None where it is something else."""
    if not begins_with(values, drawn(words[draw : draw + 16])):
        return None
    normal = drawn(words[draw : draw + values.size])
    mean, factor = fitted(values, normal)
    scales = [[values.size, factor]]
    if np.abs(values - (mean + factor * normal)).max() > (4e-6 if type_ == "F32" else 0.02):  # rows have factors of their own
        if len(shape) != 2 or mean != 0:
            return None
        scales = []
        for row, of_row in zip(values.reshape(shape), normal.reshape(shape)):
            factor = float(f32(np.dot(row.astype(float), of_row) / np.dot(of_row.astype(float), of_row)))
            if scales and scales[-1][1] == factor:
                scales[-1][0] += shape[1]
            else:
                scales.append([shape[1], factor])
    factors = np.concatenate([np.full(n, factor) for n, factor in scales])
    difference = ordered(values, type_).astype(np.int64) - ordered(rounded(predicted(normal, mean, factors), type_), type_)
    if np.abs(difference).max() > 127:
        return None
    return {"draw": draw, "mean": mean, "scales": scales}, difference.astype(np.int8)


def tensors_of(path):
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + n])
    header.pop("__metadata__", None)
    return data, n, sorted(header.items(), key=lambda item: item[1]["data_offsets"][0])


def pack(paths, name_of_set, output):
    """The files of a checkpoint: its tensors were drawn in the order of their names."""
    seed, known = SEEDS[name_of_set], {}
    for path in paths:
        data, n, tensors = tensors_of(path)
        for name, info in tensors:
            begin, end = info["data_offsets"]
            known[name] = (info, data[8 + n + begin : 8 + n + end])
    recipe, at, gap = {}, {seed: FIRST.get(name_of_set, 0)}, 0
    for name in sorted(known):
        info, raw = known[name]
        own = SEEDS.get(name, seed)
        if info["dtype"] == "F32":
            values = np.frombuffer(raw, f32)
        else:
            values = (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(f32)
        found = None
        if values.size % 16 == 0:
            begin = at.get(own, 0)
            words = np.random.RandomState(own).randint(0, 2**32, size=begin + gap + values.size, dtype=np.uint64)
            for draw in range(begin, begin + gap + 1):
                found = as_draws(values, info["shape"], info["dtype"], words, draw)
                if found:
                    at[own] = draw + values.size
                    found[0].update(seed=own, type=info["dtype"], count=values.size)
                    break
        gap = 0 if found else gap + 4 * max(values.size, 16)  # what is not found may have been drawn, too
        recipe[name] = found or ({"bytes": len(raw)}, np.frombuffer(raw, np.int8))
    for path in paths:
        data, n, tensors = tensors_of(path)
        plan = [recipe[name][0] for name, _ in tensors]
        text = json.dumps({"crc32": zlib.crc32(data), "header": data[8 : 8 + n].decode(), "tensors": plan}, separators=(",", ":"))
        payload = b"".join(recipe[name][1].tobytes() for name, _ in tensors)
        packed = gzip.compress(text.encode() + b"\n" + payload, 9, mtime=0)
        (output / (path.name + ".drawn")).write_bytes(packed)
        raw = sum(tensor.get("bytes", 0) for tensor in plan)
        print(f"{path}: {len(data)} bytes, packed {len(packed)}; {raw} not drawn")


def main():
    *sets, output = [pathlib.Path(arg) for arg in sys.argv[1:]]
    for folder in sets:
        for source in sorted(p for p in folder.iterdir() if p.is_dir()):
            target = output / ("decoders/" + source.name if folder.name == "oracles-decoders" else source.name)
            target.mkdir(parents=True, exist_ok=True)
            checkpoint = sorted(source.glob("model*.safetensors"))
            for path in sorted(source.iterdir()):
                if path not in checkpoint:
                    shutil.copyfile(path, target / path.name)
            if checkpoint:
                pack(checkpoint, source.name, target)


main()
