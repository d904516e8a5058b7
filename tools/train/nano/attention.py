"""Joined softmax over window rows, selected compressed entries and a sink.

Shapes: B sequences of T tokens, N = B T, H heads of d channels, S compressed entries a sequence, w window.
The window mask is [N, 2w]. Entries come in two ways: `entries` [N, K, d] gathered per query (top-k on), or all of them with a mask (top-k off).
"""
import torch
import torch.nn.functional as F

NEG = -1e30


def window_mask(T, w, floor=0):
    """[T, 2w] additive: key j of query t is position (t // w - 1) w + j. `floor`: queries from there on see no window row before it."""
    t = torch.arange(T)[:, None]
    s = (t // w - 1) * w + torch.arange(2 * w)[None]
    ok = (s >= 0) & (s <= t) & (t - s < w)
    if floor:
        ok &= (t < floor) | (s >= floor)
    return torch.where(ok, 0.0, NEG)


def window_keys(rows, w):
    """[N, d] -> [N/w, 2w, d]: the band of two blocks that a block of queries may see. The mask hides the block before a sequence."""
    k = rows.view(-1, w, rows.shape[-1])
    return torch.cat([F.pad(k, (0, 0, 0, 0, 1, 0))[:-1], k], 1)


def window_scores(q, keys, mask):
    """q [N, H, d] (scaled), keys [N/w, 2w, d], mask [N, 2w] -> [N, H, 2w] f32"""
    N, H, d = q.shape
    s = torch.bmm(q.view(keys.shape[0], -1, d), keys.transpose(1, 2)).view(N, H, -1).float()
    return s + mask[:, None]


def attend_window(q, win, mask, sink):
    """Window-only layer -> [N, H, d]"""
    N, H, d = q.shape
    w = mask.shape[1] // 2
    keys = window_keys(win, w)
    s = torch.cat([window_scores(q, keys, mask), sink.view(1, H, 1).expand(N, H, 1)], -1)
    p = s.softmax(-1)[..., :-1].to(win.dtype)
    return torch.bmm(p.reshape(N // w, w * H, 2 * w), keys).view(N, H, d)


def attend_selected(q, win, entries, valid, mask, sink):
    """entries [N, K, d] gathered for each query, valid [N, K] bool -> [N, H, d]"""
    N, H, d = q.shape
    w = mask.shape[1] // 2
    keys = window_keys(win, w)
    e = torch.bmm(q, entries.transpose(1, 2)).float() + torch.where(valid, 0.0, NEG)[:, None]
    p = torch.cat([window_scores(q, keys, mask), e, sink.view(1, H, 1).expand(N, H, 1)], -1).softmax(-1).to(win.dtype)
    o = torch.bmm(p[..., :2 * w].reshape(N // w, w * H, 2 * w), keys).view(N, H, d)
    return o + torch.bmm(p[..., 2 * w:-1], entries)


def attend_all(q, win, rows, emask, mask, sink, B):
    """rows [B, S, d], emask [B | 1, T, S] additive -> [N, H, d]"""
    N, H, d = q.shape
    T, w = N // B, mask.shape[1] // 2
    keys = window_keys(win, w)
    e = torch.bmm(q.view(B, T * H, d), rows.transpose(1, 2)).view(B, T, H, -1).float() + emask[:, :, None]
    p = torch.cat([window_scores(q, keys, mask), e.view(N, H, -1), sink.view(1, H, 1).expand(N, H, 1)], -1).softmax(-1).to(win.dtype)
    o = torch.bmm(p[..., :2 * w].reshape(N // w, w * H, 2 * w), keys).view(N, H, d)
    return o + torch.bmm(p[..., 2 * w:-1].reshape(B, T * H, -1), rows).view(N, H, d)


def attend_probes(q, win, rows, emask, mask, sink, at):
    """Dense attention of a few queries, for the auxiliary losses: at [B, R] token positions in each sequence.
    -> probabilities [B, R, H, S] of the compressed entries inside the joined softmax"""
    B, R = at.shape
    N, H, d = q.shape
    T, w = N // B, mask.shape[1] // 2
    flat = (at + torch.arange(B)[:, None] * T).flatten()
    qp = q.index_select(0, flat)
    keys = window_keys(win, w).index_select(0, flat // w)                                  # [B R, 2w, d]
    sw = torch.bmm(qp, keys.transpose(1, 2)).float() + mask.index_select(0, flat)[:, None]
    e = torch.bmm(qp.view(B, R * H, d), rows.transpose(1, 2)).view(B, R, H, -1).float() + emask[:, :, None]
    z = torch.cat([sw.view(B, R, H, 2 * w), e, sink.view(1, 1, H, 1).expand(B, R, H, 1)], -1)
    return z.softmax(-1)[..., 2 * w:-1]


class GatherRows(torch.autograd.Function):
    """table [S, d], index [M] -> [M, d]; the gradient is summed in f32."""
    @staticmethod
    def forward(ctx, table, index):
        ctx.save_for_backward(index)
        ctx.rows, ctx.dtype = table.shape[0], table.dtype
        return table.index_select(0, index)

    @staticmethod
    def backward(ctx, grad):
        index, = ctx.saved_tensors
        return torch.zeros(ctx.rows, grad.shape[1]).index_add_(0, index, grad.float()).to(ctx.dtype), None
