"""The twins' network: a Llama block (RMSNorm, RoPE, SwiGLU, no bias), tied embeddings, causal or full attention."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    n_vocab: int
    n_embd: int = 128
    n_layer: int = 4
    n_head: int = 4
    n_ff: int = 384
    n_ctx: int = 1024
    rope_base: float = 10000.0
    norm_eps: float = 1e-5

    @property
    def head_dim(self):
        return self.n_embd // self.n_head


class RmsNorm(nn.Module):
    def __init__(self, n, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))
        self.eps = eps

    def forward(self, x):  # [B, T, E]
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.attn_norm = RmsNorm(c.n_embd, c.norm_eps)
        self.qkv = nn.Linear(c.n_embd, 3 * c.n_embd, bias=False)
        self.out = nn.Linear(c.n_embd, c.n_embd, bias=False)
        self.ffn_norm = RmsNorm(c.n_embd, c.norm_eps)
        self.gate_up = nn.Linear(c.n_embd, 2 * c.n_ff, bias=False)
        self.down = nn.Linear(c.n_ff, c.n_embd, bias=False)

    def attention(self, x, cos, sin, bias):
        B, T, E = x.shape
        H, D = self.c.n_head, self.c.head_dim
        qkv = self.qkv(x).view(B, T, 3 * H, D).transpose(1, 2)  # [B, 3H, T, D]
        qk, v = qkv[:, : 2 * H], qkv[:, 2 * H :]
        turned = torch.cat((-qk[..., D // 2 :], qk[..., : D // 2]), -1)
        qk = qk * cos + turned * sin
        q, k = (t.reshape(B * H, T, D) for t in (qk[:, :H], qk[:, H:]))
        scores = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=1 / math.sqrt(D))  # [BH, T, T]
        mixed = torch.bmm(torch.softmax(scores, -1), v.reshape(B * H, T, D))
        return self.out(mixed.view(B, H, T, D).transpose(1, 2).reshape(B, T, E))

    def forward(self, x, cos, sin, bias):
        x = x + self.attention(self.attn_norm(x), cos, sin, bias)
        gate, up = self.gate_up(self.ffn_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.embedding = nn.Embedding(c.n_vocab, c.n_embd)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.n_layer))
        self.norm = RmsNorm(c.n_embd, c.norm_eps)
        self.norm.weight.data.fill_(0.4)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                # blocks start as nothing, so that a token can be told from another all the way up
                last = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, std=0.0 if last else 0.2 if name.startswith("embedding") else p.shape[1] ** -0.5)
        self.start_local()
        angle = torch.outer(torch.arange(c.n_ctx).float(),
                            c.rope_base ** -(torch.arange(0, c.head_dim, 2).float() / c.head_dim))
        self.cos, self.sin = (torch.cat((f(angle), f(angle)), -1) for f in (torch.cos, torch.sin))  # [n_ctx, D]

    @torch.no_grad()
    def start_local(self):
        """The first layer's first heads start out looking at the token before, the one before that, and the neighbourhood:
        recall needs such heads, and finding them from nothing takes longer than all the rest of the training. Every
        embedding gets a constant in its first place; queries and keys made of it alone differ only by position."""
        c, block = self.c, self.blocks[0]
        self.embedding.weight[:, 0] = 1.0
        nn.init.normal_(block.out.weight, std=0.3 * c.n_embd ** -0.5)
        n_pairs = 5  # the fastest of RoPE's frequencies
        angle = c.rope_base ** -(torch.arange(n_pairs) * 2.0 / c.head_dim)
        for head, (offset, sharpness) in enumerate([(1, 5.0), (2, 5.0), (0, 0.5)]):
            for part, turn in ((0, -offset * angle), (1, torch.zeros(n_pairs))):
                w = block.qkv.weight[part * c.n_embd:][head * c.head_dim:(head + 1) * c.head_dim]
                w *= 0.1
                size = math.sqrt(sharpness * math.sqrt(c.head_dim)) / 4.6
                w[:, 0] = 0
                w[:n_pairs, 0] = size * torch.cos(turn)
                w[c.head_dim // 2:c.head_dim // 2 + n_pairs, 0] = size * torch.sin(turn)

    def forward(self, tokens, causal):
        """tokens [B, T] -> hidden states [B, T, E]; logits() turns chosen rows into scores."""
        T = tokens.shape[1]
        bias = torch.full((T, T), -1e9).triu(1) if causal else torch.zeros(1, 1)
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cos[:T], self.sin[:T], bias)
        return self.norm(x)

    def logits(self, hidden):
        return F.linear(hidden, self.embedding.weight)
