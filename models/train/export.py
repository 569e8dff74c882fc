#!/usr/bin/env python3
"""Writes a checkpoint of buoy-train.py as a Hugging Face directory (LLaDAModelLM or LlamaForCausalLM, F16).

  export.py CHECKPOINT TOKENIZER.json OUT
"""

import json
import os
import shutil
import sys

import numpy as np
import torch

import bpe

TEMPLATE = ("{{ bos_token }}{% for message in messages %}{{ '<|user|>' if message['role'] != 'assistant' else "
            "'<|assistant|>' }}{{ message['content'] | trim }}{{ eos_token }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")

LLAMA = dict(embedding="model.embed_tokens", norm="model.norm", block="model.layers.{}.", attn_norm="input_layernorm",
             q="self_attn.q_proj", k="self_attn.k_proj", v="self_attn.v_proj", out="self_attn.o_proj",
             ffn_norm="post_attention_layernorm", gate="mlp.gate_proj", up="mlp.up_proj", down="mlp.down_proj")
LLADA = dict(embedding="model.transformer.wte", norm="model.transformer.ln_f", block="model.transformer.blocks.{}.",
             attn_norm="attn_norm", q="q_proj", k="k_proj", v="v_proj", out="attn_out", ffn_norm="ff_norm",
             gate="ff_proj", up="up_proj", down="ff_out")


def named_tensors(weights, c, names):
    yield names["embedding"], weights["embedding.weight"]
    for i in range(c["n_layer"]):
        block = names["block"].format(i)
        w = {k.split(".", 2)[2]: v for k, v in weights.items() if k.startswith(f"blocks.{i}.")}
        for part, matrix in zip(("q", "k", "v"), w["qkv.weight"].chunk(3)):
            yield block + names[part], matrix
        for part, matrix in zip(("gate", "up"), w["gate_up.weight"].chunk(2)):
            yield block + names[part], matrix
        for part in ("out", "down", "attn_norm", "ffn_norm"):
            yield block + names[part], w[part + ".weight"]
    yield names["norm"], weights["norm.weight"]


def save_safetensors(path, tensors):
    header, blobs, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, tensor in tensors:
        blob = tensor.contiguous().numpy().astype(np.float16).tobytes()
        header[name + ".weight"] = dict(dtype="F16", shape=list(tensor.shape), data_offsets=[at, at + len(blob)])
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + b"".join(blobs))


def arm_config(c, tok):
    return dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_act="silu", attention_bias=False,
                mlp_bias=False, hidden_size=c["n_embd"], intermediate_size=c["n_ff"], num_hidden_layers=c["n_layer"],
                num_attention_heads=c["n_head"], num_key_value_heads=c["n_head"], max_position_embeddings=c["n_ctx"],
                rms_norm_eps=c["norm_eps"], rope_theta=c["rope_base"], tie_word_embeddings=True,
                vocab_size=c["n_vocab"], bos_token_id=tok.bos, eos_token_id=tok.eos, torch_dtype="float16")


def mdm_config(c, tok):
    return dict(architectures=["LLaDAModelLM"], model_type="llada", activation_type="silu", block_type="llama",
                layer_norm_type="rms", rope=True, alibi=False, attention_layer_norm=False, input_emb_norm=False,
                scale_logits=False, block_group_size=1, include_bias=False, include_qkv_bias=False, d_model=c["n_embd"],
                mlp_hidden_size=c["n_ff"], n_layers=c["n_layer"], n_heads=c["n_head"], n_kv_heads=c["n_head"],
                max_sequence_length=c["n_ctx"], rms_norm_eps=c["norm_eps"], rope_theta=c["rope_base"],
                weight_tying=True, embedding_size=c["n_vocab"], vocab_size=c["n_vocab"], mask_token_id=tok.mask,
                eos_token_id=tok.eos, pad_token_id=tok.eos, torch_dtype="float16",
                recommended_block_length=16)  # of what was tried, the best for stories


def tokenizer_config(tok, mask):
    config = dict(tokenizer_class="PreTrainedTokenizerFast", bos_token=bpe.BOS, eos_token=bpe.EOS, pad_token=bpe.EOS,
                  add_bos_token=True, add_eos_token=False, clean_up_tokenization_spaces=False,
                  chat_template=TEMPLATE, model_max_length=1024)
    return {**config, "mask_token": bpe.MASK} if mask else config


def write_json(path, value):
    with open(path, "w") as f:
        json.dump(value, f, indent=1, ensure_ascii=False)
        f.write("\n")


def main():
    checkpoint, tokenizer, out = sys.argv[1:]
    saved = torch.load(checkpoint, map_location="cpu")
    tok = bpe.Tokenizer.load(tokenizer)
    arm = saved["twin"] == "arm"
    os.makedirs(out, exist_ok=True)
    save_safetensors(os.path.join(out, "model.safetensors"),
                     named_tensors(saved["model"], saved["config"], LLAMA if arm else LLADA))
    write_json(os.path.join(out, "config.json"), (arm_config if arm else mdm_config)(saved["config"], tok))
    write_json(os.path.join(out, "tokenizer_config.json"), tokenizer_config(tok, not arm))
    shutil.copy(tokenizer, os.path.join(out, "tokenizer.json"))


if __name__ == "__main__":
    main()
