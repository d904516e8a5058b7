"""Residual streams (mHC, single pass). Flat: N = batch x tokens rows, hc streams of D channels."""
import torch
import torch.nn.functional as F

EPS_NORM, EPS_HC = 1e-20, 1e-6


def rms(x, weight):
    x = x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS_NORM) * weight


def _normalise(c, sweeps):
    for _ in range(sweeps):
        c = c / (c.sum(-1, keepdim=True) + EPS_HC)
        c = c / (c.sum(-2, keepdim=True) + EPS_HC)
    return c


def sinkhorn(c, iterations):
    """One column normalisation, then (iterations - 1) sweeps. Gradients flow through the last three sweeps only: the ones
    before them are a scaling of rows and columns that the later ones forget."""
    c = c / (c.sum(-2, keepdim=True) + EPS_HC)
    early = max(0, iterations - 4)
    if early:
        with torch.no_grad():
            scaling = _normalise(c, early) / c
        c = c * scaling
    return _normalise(c, iterations - 1 - early)


def mix(h, fn, base, scale, iterations, dtype):
    """h [N, hc, D] -> pre [N, hc], post [N, hc], comb [N, hc, hc] of one site."""
    flat, n = h.flatten(-2), h.shape[-2]
    m = F.linear(flat.to(dtype), fn.to(dtype)).float() * torch.rsqrt(flat.square().mean(-1, keepdim=True) + EPS_NORM)
    pre = torch.sigmoid(m[:, :n] * scale[0] + base[:n]) + EPS_HC
    post = 2 * torch.sigmoid(m[:, n:2 * n] * scale[1] + base[n:2 * n])
    comb = (m[:, 2 * n:] * scale[2] + base[2 * n:]).unflatten(-1, (n, n)).softmax(-1) + EPS_HC
    return pre, post, sinkhorn(comb, iterations)


def collapse(h, pre):
    """-> the sublayer's input [N, D]"""
    return (pre[..., None] * h).sum(-2)


def spread(h, y, post, comb):
    """Writes a sublayer's output y [N, D] back to the streams."""
    return post[..., None] * y.float()[:, None, :] + (comb[..., None] * h[:, :, None, :]).sum(1)
