"""Index scores, top-k and the candidate pool."""
import torch
import torch.nn.functional as F

from .attention import NEG


def scores(q, a, keys):
    """q [B, R, h, d], a [B, R, h], keys [B, S, d] -> [B, R, S] f32: sum over heads of a relu(q k)"""
    B, R, h, d = q.shape
    s = torch.bmm(q.reshape(B, R * h, d), keys.transpose(1, 2)).view(B, R, h, -1)
    return weighted_relu(s, a)


def weighted_relu(s, a):
    return (s.float().relu() * a[..., None]).sum(2)


def eligible(first, rows, m, S):
    """Additive [rows, S]: query t sees the finished groups, entries j < (t + 1) // m."""
    t = torch.arange(first, first + rows)
    return torch.where(torch.arange(S)[None] < ((t + 1) // m)[:, None], 0.0, NEG)


def largest(x, k, exact):
    """Indices of the k largest along the last axis; `exact`: lower index first among equals (training does not care)."""
    if exact:
        return torch.sort(x, dim=-1, descending=True, stable=True).indices[..., :k]
    return x.topk(k, dim=-1, sorted=False).indices


def pool_blocks(s, newest, size, blocks, exact):
    """s [.., S] scores with NEG where not eligible, newest [..] index of the query's newest entry (-1: none)
    -> block ids [.., blocks], -1 where the query has fewer"""
    b = F.pad(s, (0, -s.shape[-1] % size), value=NEG).unflatten(-1, (-1, size)).amax(-1)
    here = torch.arange(b.shape[-1]) == torch.div(newest, size, rounding_mode='floor')[..., None]
    b = torch.where(here, torch.inf, b)
    ids = largest(b, min(blocks, b.shape[-1]), exact)
    return torch.where(b.gather(-1, ids) > NEG / 2, ids, -1)


def pool_members(ids, size, S):
    """Block ids -> entry ids [.., blocks * size], -1 where outside"""
    e = (ids[..., None] * size + torch.arange(size)).flatten(-2)
    return torch.where((ids >= 0).repeat_interleave(size, -1) & (e < S), e, -1)


@torch.no_grad()
def select(q, a, keys, m, k, pool=None, pool_shape=None, exact=False, chunk=256):
    """-> (entry ids [B, T, k], -1 where fewer; pool members [B, T, P] if `pool_shape` = (blocks, size) asks for them).
    `pool`: candidate entries of each query; the selection stays inside. Works through the queries in chunks that stay in cache."""
    B, T = q.shape[:2]
    picked, pools = [], []
    for t in range(0, T, chunk):
        u = min(T, t + chunk)
        S = u // m                                               # entries that the chunk's last query may see
        s = scores(q[:, t:u], a[:, t:u], keys[:, :S]) + eligible(t, u - t, m, S)
        if pool_shape:
            newest = (torch.arange(t, u) + 1) // m - 1
            ids = pool_blocks(s, newest.expand(B, -1), pool_shape[1], pool_shape[0], exact)
            pools.append(_pad(pool_members(ids, pool_shape[1], S), pool_shape[0] * pool_shape[1]))
        if pool is not None:
            member = pool[:, t:u].sort(-1).values if exact else pool[:, t:u]
            s = torch.where(member >= 0, s.gather(-1, member.clamp_min(0)), NEG)
        ids = largest(s, min(k, s.shape[-1]), exact)
        ok = s.gather(-1, ids) > NEG / 2
        if pool is not None:
            ids = member.gather(-1, ids)
        picked.append(_pad(torch.where(ok, ids, -1), k))
    return torch.cat(picked, 1), torch.cat(pools, 1) if pool_shape else None


def _pad(ids, width):
    return F.pad(ids, (0, width - ids.shape[-1]), value=-1)
