"""The model's tensors as one flat dict: official names, except that experts are stacked per layer.

Masters are f32 parameters. A forward runs on *working copies* made from them once per step: rounded to
what the released file will hold (or only to bf16 before the quantizers come in). The gradient of a working
copy is taken as the gradient of its master, which is the straight-through rule without a graph for it.
"""
import math
from dataclasses import dataclass

import torch

from . import quantize as q


@dataclass(frozen=True)
class Spec:
    shape: tuple
    kind: str           # a key of quantize.WEIGHT
    init: torch.Tensor


def _normal(g, *shape, std=1.0):
    return torch.randn(*shape, generator=g) * std


def _orthonormal(g, rows, cols):
    return torch.linalg.qr(torch.randn(cols, rows, generator=g))[0].T.contiguous()


def attention_specs(c, layer, p, g):
    """Content-matching start: keys, queries and values of all layers that read one store share a projection P [d, D] of the normed input, in
    half of the heads q = k for equal content, and the output path lifts values back by P^T. A query then attends
    to entries with similar context and adds what they hold to its streams: look-up has only to be sharpened."""
    D, H, d, ql = (c[k] for k in ('hidden_size', 'num_attention_heads', 'head_dim', 'q_lora_rank'))
    G, r = c['o_groups'], c['o_lora_rank']
    wq_a = _normal(g, ql, D, std=1 / math.sqrt(D))
    wq_a[:min(ql, d)] = p[:min(ql, d)]
    wq_b = _normal(g, H * d, ql, std=1 / math.sqrt(ql))
    for h in range(H // 2):
        wq_b[h * d:(h + 1) * d] = torch.eye(d, ql) * 0.8 + _normal(g, d, ql, std=0.1 / math.sqrt(ql))
    per_group = H // G
    wo_a = torch.cat([torch.cat([torch.eye(r, d) / per_group] * per_group, 1) for _ in range(G)])
    wo_a += _normal(g, *wo_a.shape, std=0.3 / math.sqrt(wo_a.shape[1]))
    wo_b = torch.cat([p.T[:, :min(r, d)] if r <= d else torch.cat([p.T, torch.zeros(D, r - d)], 1)] * G, 1) / G
    wo_b = wo_b + _normal(g, D, G * r, std=0.2 / math.sqrt(G * r))
    noisy = lambda: p + _normal(g, d, D, std=0.2 / math.sqrt(D))
    t = {'wq_a': Spec((ql, D), 'fp8', wq_a), 'q_norm': Spec((ql,), 'norm', torch.ones(ql)), 'wq_b': Spec((H * d, ql), 'fp8', wq_b),
         'wkv': Spec((d, D), 'fp8', noisy()), 'kv_norm': Spec((d,), 'norm', torch.ones(d)),
         'wo_a': Spec((G * r, per_group * d), 'fp8', wo_a), 'wo_b': Spec((D, G * r), 'fp8', wo_b),
         'attn_sink': Spec((H,), 'f32', torch.zeros(H))}
    if layer in c['kv_source_layer_ids']:
        t['compressor.wkv'] = Spec((d, D), 'bf16', noisy())
        t['compressor.norm'] = Spec((d,), 'norm', torch.ones(d))
        if c['compress_ratios'][layer] > 1:
            t['compressor.wgate'] = Spec((d, D), 'bf16', _normal(g, d, D, std=0.5 / math.sqrt(D)))
    if layer in c['index_source_layer_ids']:
        n, di = c['index_n_heads'], c['index_head_dim']
        match = torch.eye(di, ql)
        t['indexer.wq_b'] = Spec((n * di, ql), 'fp8', torch.cat([match + _normal(g, di, ql, std=0.5 / math.sqrt(ql)) for _ in range(n)]))
        t['indexer.weights_proj'] = Spec((n, D), 'bf16', torch.full((n, D), 1.5 / D) + _normal(g, n, D, std=0.02))
        if layer in c['kv_source_layer_ids']:
            t['indexer.wk'] = Spec((di, d), 'bf16', torch.eye(di, d) + _normal(g, di, d, std=0.1 / math.sqrt(d)))
            t['indexer.k_norm'] = Spec((di,), 'norm', torch.ones(di))
    return {'attn.' + k: v for k, v in t.items()}


def source(c, layer):
    """The KV source whose rows a layer reads; -1: window only."""
    return max((s for s in c['kv_source_layer_ids'] if s <= layer and c['compress_ratios'][layer]), default=-1)


def expert_specs(c, g):
    """Small outputs: experts that grow fast drown the token identities that look-up copies."""
    D, W, E = c['hidden_size'], c['moe_intermediate_size'], c['n_routed_experts']
    up, down = 1 / math.sqrt(D), 0.2 / math.sqrt(W)
    return {'ffn.gate': Spec((E, D), 'router', _normal(g, E, D, std=up)),
            'ffn.gate.bias': Spec((E,), 'f32', torch.zeros(E)),
            'ffn.experts.w13': Spec((E, 2 * W, D), 'fp4', _normal(g, E, 2 * W, D, std=up)),
            'ffn.experts.w2': Spec((E, D, W), 'fp4', _normal(g, E, D, W, std=down)),
            'ffn.shared_experts.w13': Spec((2 * W, D), 'fp8', _normal(g, 2 * W, D, std=up)),
            'ffn.shared_experts.w2': Spec((D, W), 'fp8', _normal(g, D, W, std=down))}


def stream_specs(c, layer, g):
    D, n = c['hidden_size'], c['hc_mult']
    t = {}
    for i, site in enumerate(('attn', 'ffn')):
        base = torch.zeros((2 + n) * n)
        base[:n] = -1.5 + _normal(g, n, std=0.3)
        base[(2 * layer + i) % n] = 1.5                   # mostly one stream in, another site another
        base[n:2 * n] = _normal(g, n, std=0.5)
        base[2 * n:] = (4 * torch.eye(n)).flatten()       # streams stay nearly unmixed
        t[f'hc_{site}_fn'] = Spec(((2 + n) * n, n * D), 'f32', _normal(g, (2 + n) * n, n * D, std=0.01))
        t[f'hc_{site}_base'] = Spec(base.shape, 'f32', base)
        t[f'hc_{site}_scale'] = Spec((3,), 'f32', torch.ones(3))
    return t


def engram_specs(c, rows, g):
    D, n, d = c['hidden_size'], c['hc_mult'], c['engram_head_dim']
    cols = (c['engram_max_ngram_size'] - 1) * c['engram_n_heads'] * d
    return {'engram.embed': Spec((rows, d), 'table', _normal(g, rows, d, std=0.5)),
            'engram.wkv': Spec(((n + 1) * D, cols), 'fp8', _normal(g, (n + 1) * D, cols, std=0.5 / math.sqrt(cols))),
            'engram.q_weight': Spec((n, D), 'norm', torch.ones(n, D)), 'engram.k_weight': Spec((n, D), 'norm', torch.ones(n, D))}


def specs(config, compressed, seed=41):
    """-> {name: Spec}. `compressed`: token id -> compressed id; variants of one word (" fox", "fox", "Fox") start close to each other."""
    c = config['text_config']
    g = torch.Generator().manual_seed(seed)
    V, D = c['vocab_size'], c['hidden_size']
    word = torch.zeros(V, D)
    word[:len(compressed)] = _normal(g, int(compressed.max()) + 1, D)[compressed][:V]
    embed = 0.8 * word + 0.5 * _normal(g, V, D) + 0.3          # the 0.3: a constant direction, the bias that these layers lack
    head = (0.8 * word + 0.3 * _normal(g, V, D)) * 0.5 / math.sqrt(D)    # untied, but aligned at the start: copying is nearly the identity
    out = {'embed': Spec((V, D), 'bf16', embed), 'head': Spec((V, D), 'bf16', head), 'norm': Spec((D,), 'norm', torch.ones(D))}
    rows = dict(zip(c['engram_layer_ids'], c['engram_num_embeddings']))
    shared = {s: _orthonormal(g, c['head_dim'], D) for s in sorted({source(c, l) for l in range(c['num_hidden_layers'])})}
    for l in range(c['num_hidden_layers']):
        t = {'attn_norm': Spec((D,), 'norm', torch.ones(D)), 'ffn_norm': Spec((D,), 'norm', torch.ones(D))}
        t |= attention_specs(c, l, shared[source(c, l)], g) | expert_specs(c, g) | stream_specs(c, l, g)
        if l in rows:
            t |= engram_specs(c, rows[l], g)
        out |= {f'layers.{l}.{k}': v for k, v in t.items()}
    return out


def initial(specs_):
    """-> {name: f32 master}"""
    return {k: v.init.float().clone() for k, v in specs_.items()}


MATRIX = ('fp8', 'fp4', 'table', 'bf16')


def round_weight(x, kind):
    return q.WEIGHT[kind](x)


@torch.no_grad()
def working(masters, specs_, quantized, dtype, rounder=round_weight):
    """Working copies of all masters. Matrices in `dtype` (bf16 for training, f32 for exact evaluation), the rest in f32."""
    out = {}
    for k, x in masters.items():
        s = specs_[k]
        v = rounder(x, s.kind) if quantized else x
        out[k] = (v.to(dtype) if s.kind in MATRIX else v.clone() if v is x else v).detach()
    return out
