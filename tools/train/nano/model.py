"""The forward pass of V4.1 for training and exact evaluation, as functions of a dict of working weights.

`Options` says which quantizers and approximations are in force. `Forward.__call__` returns the final hidden rows and the
auxiliary quantities of the probe rows (see auxiliary.py).
"""
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from . import attention as at, engram as en, gathered, indexer as ix, moe, quantize as q, rope, streams as st
from .auxiliary import Auxiliary


@dataclass(frozen=True)
class Options:
    weights: bool = False        # weight quantizers (applied when the working copies are made)
    acts: bool = False           # fp8 quantizer at the input of quantized linears
    window_rows: bool = False    # fp8 window rows
    main_rows: bool = False      # fp4 main rows
    index_rows: bool = False     # fp4 index keys and queries
    select: bool = False         # top-k and pool; off: every eligible entry
    sinkhorn: int = 4            # iterations; the released form has hc_sinkhorn_iters
    index_loss: bool = False
    exact: bool = False          # f32 everywhere, ties as specified


def deployed(c, **kw):
    return Options(**(dict(weights=True, acts=True, window_rows=True, main_rows=True, index_rows=True, select=True, sinkhorn=c['hc_sinkhorn_iters']) | kw))


def linear(x, w, quantize=False):
    if quantize:
        x = q.straight_through(x.float(), q.fp8_block32(x))
    return F.linear(x.to(w.dtype), w)


def site(h, y, post, comb, pre, fn, base, scale, iterations, dtype):
    """Closes one site (writes y back) and opens the next: -> streams, its input, pre/post/comb of the next site."""
    if y is not None:
        h = st.spread(h, y, post, comb)
    return (h, st.collapse(h, pre), *st.mix(h, fn, base, scale, iterations, dtype))


def queries_and_window(x, norm, wq_a, q_norm, wq_b, wkv, kv_norm, cos, sin, H, acts, window_rows):
    """x [N, D] before attn_norm -> normed x, qr [N, ql], q [N, H, d] (scaled), window rows [N, d]"""
    x = st.rms(x, norm)
    qr = st.rms(linear(x, wq_a, acts), q_norm)
    qh = linear(qr, wq_b, acts).view(x.shape[0], H, -1)
    qh = rope.rotate(qh, cos, sin) * qh.shape[-1] ** -0.5
    win = rope.rotate(st.rms(linear(x, wkv, acts), kv_norm), cos, sin)
    if window_rows:
        win = q.straight_through(win, q.fp8_block32(win))
    return x, qr, qh.to(wkv.dtype), win.to(wkv.dtype)


def attention_output(o, cos, sin, wo_a, wo_b, groups, acts):
    """o [N, H, d] -> [N, D]; the input of wo_a is not quantized"""
    o = rope.rotate(o, cos, -sin).to(wo_a.dtype).reshape(o.shape[0], groups, -1)
    w = wo_a.view(groups, -1, wo_a.shape[1])
    o = torch.cat([F.linear(o[:, g], w[g]) for g in range(groups)], -1)
    return linear(o, wo_b, acts)


def ffn_input(x, norm, gate, bias, top, scale, w13, w2, limit, acts):
    """-> rows for the experts, expert ids and weights, the shared expert's output"""
    x = st.rms(x, norm)
    ids, weight = moe.route(x, gate, bias, top, scale)
    if acts:
        x = q.straight_through(x, q.fp8_block32(x))
    x = x.to(w13.dtype)
    y = moe.activate(F.linear(x, w13), 1.0, limit, acts)
    return x, ids, weight, F.linear(y, w2)


def compress(x, wkv, wgate, norm, m):
    """x [N, D] -> latents [N / m, d] f32 (before RoPE)"""
    z = F.linear(x.to(wkv.dtype), wkv).float()
    if m > 1:
        cut = lambda v: v.unflatten(0, (-1, m))
        z = (cut(z) * cut(F.linear(x.to(wgate.dtype), wgate).float()).softmax(1)).sum(1)
    return st.rms(z, norm)


def store_rows(latent, cos, sin, wk, k_norm, main_rows, index_rows):
    """latents -> main rows, index keys"""
    main = rope.rotate(latent, cos, sin)
    if main_rows:
        main = q.straight_through(main, q.fp4_block16(main))
    keys = rope.rotate(st.rms(F.linear(latent.detach().to(wk.dtype), wk), k_norm), cos, sin)
    if index_rows:
        keys = q.straight_through(keys, q.fp4_block32(keys))
    return main.to(wk.dtype), keys.to(wk.dtype)


def index_queries(x, qr, wq_b, weights_proj, cos, sin, h, acts, index_rows):
    """-> index queries [N, h, d], head weights [N, h] f32. Inputs come detached: the indexer learns from its own loss."""
    qi = rope.rotate(linear(qr, wq_b, acts).view(x.shape[0], h, -1), cos, sin)
    d = qi.shape[-1]
    if index_rows:
        qi = q.straight_through(qi, q.fp4_block32(qi))
    return qi.to(wq_b.dtype), F.linear(x.to(weights_proj.dtype), weights_proj).float() * (d ** -0.5 * h ** -0.5)


@dataclass
class Store:
    """What a KV source publishes, and the latest selection from it."""
    m: int
    rows: torch.Tensor           # [B, S, d]
    keys: torch.Tensor           # [B, S, d_index]
    eligible: torch.Tensor       # [1, T, S] additive
    picked: torch.Tensor = None  # [B, T, k] entry ids, -1 where fewer
    pool: torch.Tensor = None    # [B, T, P] candidate entries of each query, -1 where fewer


class Forward:
    def __init__(self, config, layout):
        self.c = config['text_config']
        self.layout = layout
        self.tables, self.masks = {}, {}
        self.parts = {f.__name__: f for f in (site, queries_and_window, attention_output, ffn_input, compress, store_rows, index_queries,
                                              at.attend_window, at.attend_selected, at.attend_all, moe.activate, en.gate_in, st.spread, st.collapse)}

    def compile(self):
        """Fuses the pointwise work of each part. Shapes are static: one compilation per (tokens, options)."""
        torch._dynamo.config.recompile_limit = torch._dynamo.config.cache_size_limit = 64
        self.parts = {k: torch.compile(f, dynamic=False) for k, f in self.parts.items()}

    def positions(self, B, T, compressed_theta):
        """cos, sin [B T, pairs]"""
        key = (B, T, compressed_theta)
        if key not in self.tables:
            c = self.c
            theta, scaling = (c['compress_rope_theta'], c['rope_scaling']) if compressed_theta else (c['rope_theta'], None)
            self.tables[key] = tuple(x.repeat(B, 1) for x in rope.table(T, c['qk_rope_head_dim'], theta, scaling))
        return self.tables[key]

    def window_mask(self, B, T):
        """[B T, 2w]"""
        if (B, T) not in self.masks:
            self.masks[B, T] = at.window_mask(T, self.c['sliding_window']).repeat(B, 1)
        return self.masks[B, T]

    def __call__(self, w, ids, opt, probes=None, keep=None):
        """ids [B, T], T a multiple of the window and of every m -> hidden [N, D] after the last norm, Auxiliary.
        keep: dict that receives the expert loads and selections."""
        c, P = self.c, self.parts
        B, T = ids.shape
        dtype = torch.float32 if opt.exact else torch.bfloat16
        h = F.embedding(ids.flatten(), w['embed']).float()[:, None].expand(B * T, c['hc_mult'], c['hidden_size']).contiguous()
        pre = torch.zeros(B * T, c['hc_mult'])
        pre[:, 0] = 1
        y = post = comb = store = None
        aux = Auxiliary(c, opt, probes)
        loads = []
        for l in range(c['num_hidden_layers']):
            lw = {k[len(f'layers.{l}.'):]: v for k, v in w.items() if k.startswith(f'layers.{l}.')}
            if l in self.layout.layers:
                h, y = (h if y is None else P['spread'](h, y, post, comb)), None
                kv = linear(en.lookup(self.layout.rows(ids, l), lw['engram.embed']), lw['engram.wkv'], opt.acts)
                h = P['gate_in'](h, kv, lw['engram.q_weight'], lw['engram.k_weight'])
            h, x, nxt, post, comb = P['site'](h, y, post, comb, pre, lw['hc_attn_fn'], lw['hc_attn_base'], lw['hc_attn_scale'], opt.sinkhorn, dtype)
            pre = nxt
            y, store = self.attention(l, lw, x, B, T, store, opt, aux, w)
            h, x, nxt, post, comb = P['site'](h, y, post, comb, pre, lw['hc_ffn_fn'], lw['hc_ffn_base'], lw['hc_ffn_scale'], opt.sinkhorn, dtype)
            pre = nxt
            x, eid, ew, shared = P['ffn_input'](x, lw['ffn_norm'], lw['ffn.gate'], lw['ffn.gate.bias'], c['num_experts_per_tok'], c['routed_scaling_factor'],
                                                lw['ffn.shared_experts.w13'], lw['ffn.shared_experts.w2'], c['swiglu_limit'], opt.acts)
            out, load = moe.routed(x, eid, ew, lw['ffn.experts.w13'], lw['ffn.experts.w2'], c['swiglu_limit'], opt.acts, P['activate'])
            y = out.float().sum(1) + shared.float()
            loads.append(load)
        aux.close()
        if keep is not None:
            keep['loads'] = loads
        return st.rms(P['collapse'](P['spread'](h, y, post, comb), pre), w['norm']), aux

    def attention(self, l, lw, x, B, T, store, opt, aux, w):
        c, P = self.c, self.parts
        m, H = c['compress_ratios'][l], c['num_attention_heads']
        cos, sin = self.positions(B, T, m > 0)
        a = lambda n: lw['attn.' + n]
        x, qr, qh, win = P['queries_and_window'](x, lw['attn_norm'], a('wq_a'), a('q_norm'), a('wq_b'), a('wkv'), a('kv_norm'), cos, sin, H, opt.acts, opt.window_rows)
        mask = self.window_mask(B, T)
        if m == 0:
            o = P['attend_window'](qh, win, mask, a('attn_sink'))
        else:
            if l in c['kv_source_layer_ids']:
                store = self.publish(lw, x, B, T, m, opt)
            if l in c['index_source_layer_ids']:
                self.reselect(l, lw, x, qr, store, B, T, cos, sin, opt, aux)
            if opt.select:
                o = self.attend_picked(qh, win, store, mask, a('attn_sink'), B, T)
            else:
                o = P['attend_all'](qh, win, store.rows, store.eligible, mask, a('attn_sink'), B)
            if aux.on:
                aux.attention(l, at.attend_probes(qh, win, store.rows, aux.rows_of(store.eligible), mask, a('attn_sink'), aux.at), store)
        y = P['attention_output'](o, cos, sin, a('wo_a'), a('wo_b'), c['o_groups'], opt.acts)
        if aux.on and m:
            aux.naming(l, y, w)
        return y, store

    def publish(self, lw, x, B, T, m, opt):
        S = T // m
        cos, sin = (v[::m] for v in self.positions(B, T, True))
        latent = self.parts['compress'](x, lw['attn.compressor.wkv'], lw.get('attn.compressor.wgate'), lw['attn.compressor.norm'], m)
        main, keys = self.parts['store_rows'](latent, cos, sin, lw['attn.indexer.wk'], lw['attn.indexer.k_norm'], opt.main_rows, opt.index_rows)
        return Store(m, main.view(B, S, -1), keys.view(B, S, -1), ix.eligible(0, T, m, S)[None])

    def reselect(self, l, lw, x, qr, store, B, T, cos, sin, opt, aux):
        """A new selection from the store, by this layer's own index queries."""
        c = self.c
        if opt.select or aux.on:
            qi, head = self.parts['index_queries'](x.detach(), qr.detach(), lw['attn.indexer.wq_b'], lw['attn.indexer.weights_proj'], cos, sin, c['index_n_heads'], opt.acts, opt.index_rows)
            qi, head = qi.view(B, T, c['index_n_heads'], -1), head.view(B, T, -1)
        if opt.select:
            source = c['candidate_source_layer_id']
            shape = (c['candidate_topk_blocks'], c['candidate_block_size']) if l == source else None
            store.picked, members = ix.select(qi, head, store.keys, store.m, c['index_topk'], store.pool if l > source >= 0 else None, shape, opt.exact)
            if shape:
                store.pool = members
        if aux.on:
            aux.new_group(aux.take(qi), aux.take(head), store, pool=l == c['candidate_source_layer_id'])

    def attend_picked(self, qh, win, store, mask, sink, B, T):
        S, d = store.rows.shape[1:]
        valid = store.picked >= 0
        flat = store.picked.clamp_min(0) + torch.arange(B)[:, None, None] * S
        if qh.dtype == torch.bfloat16:
            return gathered.Attend.apply(qh, win, store.rows.reshape(B * S, d), torch.where(valid, flat, -1).flatten(0, 1), sink, T, self.c['sliding_window'])
        flat = flat.flatten()
        entries = at.GatherRows.apply(store.rows.reshape(B * S, d), flat).view(B * T, -1, d)
        return self.parts['attend_selected'](qh, win, entries, valid.flatten(0, 1), mask, sink)


def logits(hidden, w):
    """hidden [R, D] -> [R, V]"""
    return F.linear(hidden.to(w['head'].dtype), w['head'])
