"""Mixture of experts: sqrt-softplus router, rows grouped by expert, one small matrix product per expert."""
import torch
import torch.nn.functional as F

from . import quantize as q


PAD = 64        # a group's rows are filled up to a multiple: few distinct shapes, whose kernels are made once


class Groups:
    """Rows (token, choice) sorted by expert into `length` slots; every expert's slots are a multiple of PAD."""

    def __init__(self, ids, experts):
        flat = ids.flatten()
        self.top, self.length = ids.shape[1], len(flat) + experts * PAD
        self.load = torch.bincount(flat, minlength=experts)
        room = (self.load + PAD - 1) // PAD * PAD
        self.counts = room.tolist()
        order = flat.argsort(stable=True)
        shift = (room.cumsum(0) - room) - (self.load.cumsum(0) - self.load)
        self.slot = torch.empty_like(order)                     # of each row
        self.slot[order] = torch.arange(len(order)) + shift[flat[order]]
        self.token = torch.zeros(self.length, dtype=torch.long)     # of each slot; a free slot computes something finite that nobody reads
        self.token[self.slot] = torch.arange(len(flat)) // self.top


class TakeRows(torch.autograd.Function):
    """x [N, D] -> [length, D]: each token's row once per chosen expert, in its slot."""
    @staticmethod
    def forward(ctx, x, groups):
        ctx.groups = groups
        return x.index_select(0, groups.token)

    @staticmethod
    def backward(ctx, grad):
        g = ctx.groups
        return grad.index_select(0, g.slot).view(-1, g.top, grad.shape[1]).sum(1), None


class ToSlots(torch.autograd.Function):
    """[N top, C] -> [length, C]; free slots are zero."""
    @staticmethod
    def forward(ctx, x, groups):
        ctx.groups = groups
        return x.new_zeros(groups.length, x.shape[1]).index_copy_(0, groups.slot, x)

    @staticmethod
    def backward(ctx, grad):
        return grad.index_select(0, ctx.groups.slot), None


class FromSlots(torch.autograd.Function):
    """[length, C] -> [N top, C]"""
    @staticmethod
    def forward(ctx, x, groups):
        ctx.groups = groups
        return x.index_select(0, groups.slot)

    @staticmethod
    def backward(ctx, grad):
        return grad.new_zeros(ctx.groups.length, grad.shape[1]).index_copy_(0, ctx.groups.slot, grad), None


class GroupedLinear(torch.autograd.Function):
    """x [length, I] in groups, w [E, O, I] -> [length, O]; group e is multiplied by w[e], slots behind the last group are zero."""
    @staticmethod
    def forward(ctx, x, w, groups):
        ctx.save_for_backward(x, w)
        ctx.counts = groups.counts
        used = sum(ctx.counts)
        out = x.new_empty(x.shape[0], w.shape[1])
        for xe, oe, we in zip(x[:used].split(ctx.counts), out[:used].split(ctx.counts), w):
            torch.mm(xe, we.T, out=oe)
        out[used:] = 0
        return out

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        used = sum(ctx.counts)
        gx, gw = torch.empty_like(x), torch.empty_like(w)
        cut = lambda t: t[:used].split(ctx.counts)
        for xe, ge, gxe, we, gwe in zip(cut(x), cut(grad), cut(gx), w, gw):
            torch.mm(ge, we, out=gxe)
            torch.mm(ge.T, xe, out=gwe)
        gx[used:] = 0
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
    g = Groups(ids, w13.shape[0])
    ws = ToSlots.apply(weight.reshape(-1, 1), g)
    y = act(GroupedLinear.apply(TakeRows.apply(x, g), w13, g), ws, limit, quantize)
    y = FromSlots.apply(GroupedLinear.apply(y, w2, g), g)
    return y.view(-1, g.top, y.shape[1]), g.load
