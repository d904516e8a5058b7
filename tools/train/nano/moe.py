"""Mixture of experts: sqrt-softplus router, rows grouped by expert, one small matrix product per expert."""
import torch
import torch.nn.functional as F

from . import quantize as q


class TakeRows(torch.autograd.Function):
    """x [N, D] -> x[order // top] [N top, D]: each token's row once per chosen expert, grouped by expert."""
    @staticmethod
    def forward(ctx, x, order, inverse, top):
        ctx.save_for_backward(inverse)
        ctx.top = top
        return x.index_select(0, order // top)

    @staticmethod
    def backward(ctx, grad):
        inverse, = ctx.saved_tensors
        return grad.index_select(0, inverse).view(-1, ctx.top, grad.shape[1]).sum(1), None, None, None


class Permute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, index, inverse):
        ctx.save_for_backward(inverse)
        return x.index_select(0, index)

    @staticmethod
    def backward(ctx, grad):
        return grad.index_select(0, ctx.saved_tensors[0]), None, None


class GroupedLinear(torch.autograd.Function):
    """x [M, I] in groups of `counts` rows, w [E, O, I] -> [M, O]; group e is multiplied by w[e]."""
    @staticmethod
    def forward(ctx, x, w, counts):
        ctx.save_for_backward(x, w)
        ctx.counts = counts
        out = x.new_empty(x.shape[0], w.shape[1])
        for xe, oe, we in zip(x.split(counts), out.split(counts), w):
            torch.mm(xe, we.T, out=oe)
        return out

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        gx, gw = torch.empty_like(x), torch.empty_like(w)
        for xe, ge, gxe, we, gwe in zip(x.split(ctx.counts), grad.split(ctx.counts), gx.split(ctx.counts), w, gw):
            torch.mm(ge, we, out=gxe)
            torch.mm(ge.T, xe, out=gwe)
        return gx, gw, None


def activate(gu, weight, limit, quantize):
    """SwiGLU of [M, 2W] in f32, clamped; the routing weight [M, 1] multiplies before the second matrix."""
    g, u = gu.float().chunk(2, -1)
    y = F.silu(g.clamp(max=limit)) * u.clamp(-limit, limit) * weight
    if quantize:
        y = q.straight_through(y, q.fp8_block32(y))
    return y.to(gu.dtype)


def route(x, gate, bias, top, scale):
    """x [N, D] f32 -> expert ids [N, top], weights [N, top]"""
    s = F.softplus(F.linear(x.float(), gate)).sqrt()
    ids = (s.detach() + bias).topk(top, -1).indices
    weight = s.gather(1, ids)
    return ids, weight / (weight.sum(-1, keepdim=True) + 1e-20) * scale


def routed(x, ids, weight, w13, w2, limit, quantize, act=activate):
    """x [N, D] (already quantized if asked) -> outputs [N, top, D] before their sum, loads [E]"""
    top, E = ids.shape[1], w13.shape[0]
    flat = ids.flatten()
    order = flat.argsort(stable=True)
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(len(order))
    load = torch.bincount(flat, minlength=E)
    counts = load.tolist()
    xs = TakeRows.apply(x, order, inverse, top)
    ws = Permute.apply(weight.reshape(-1, 1), order, inverse)
    y = act(GroupedLinear.apply(xs, w13, counts), ws, limit, quantize)
    y = Permute.apply(GroupedLinear.apply(y, w2, counts), inverse, order)
    return y.view(-1, top, y.shape[1]), load
