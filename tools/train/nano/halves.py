"""The gradient of a step: two processes of one thread each take half of the batch. They share the masters and meet once a
step, so neither waits at every operation for a core that something else is using.
"""
import math
import multiprocessing as mp
import random
import subprocess
from multiprocessing.connection import Connection

import torch
import torch.nn.functional as F

from . import batches, text, weights as wt
from .documents import ANSWER, PAIR, TEXT, Writer
from .model import Forward, logits

TEXT_SHARE = 0.4                    # of the text tokens enter the loss
ANSWER_WEIGHT, PAIR_WEIGHT = 8.0, 4.0
PROBES = 128                        # probe rows of a half


def mean(values):
    """Of the finite ones; NaN if there are none."""
    v = [x for x in values if math.isfinite(x)]
    return sum(v) / len(v) if v else math.nan


class Half:
    def __init__(self, config, tok, layout, specs, masters, real_txt, tokens, compiled=True):
        self.specs, self.masters, self.tokens = specs, masters, tokens
        self.blank = tok.encode(' ', add_special_tokens=False).ids[0]
        self.writer = Writer(tok, text.load(real_txt)[0])
        self.forward, self.round = Forward(config, layout), wt.round_weight
        if compiled:
            self.forward.compile()
            self.round = torch.compile(wt.round_weight, dynamic=False)

    def gradient(self, step, stage, half):
        """-> {name: gradient of the working copy}, figures for the log, expert loads [layers, experts]"""
        seed = 2 * step + half
        g = torch.Generator().manual_seed(seed)
        ids, kinds = batches.make(self.writer, 1_000_000 + seed, random.Random(step).choice(stage.lengths), stage, self.tokens)
        work = wt.working(self.masters, self.specs, stage.options.weights, torch.bfloat16, self.round)
        for k, v in work.items():
            v.requires_grad_(not k.endswith('gate.bias'))
        keep = {}
        hidden, aux = self.forward(work, ids[:, :-1], stage.options, batches.probes(ids, kinds, PROBES, stage.guide > 0, self.blank, g), keep)
        at = batches.loss_rows(kinds, TEXT_SHARE, g)
        kind, target = kinds[:, 1:].flatten()[at], ids[:, 1:].flatten()[at]
        z = logits(hidden.index_select(0, at), work).float()
        ce = F.cross_entropy(z, target, reduction='none')
        weight = torch.where(kind == ANSWER, ANSWER_WEIGHT, torch.where(kind == PAIR, PAIR_WEIGHT, stage.text_weight / TEXT_SHARE))
        loss = (ce * weight).sum() / weight.sum() + stage.index * aux.index + stage.lost * aux.lost + stage.guide * (aux.guide + aux.named) / 5
        loss.backward()
        with torch.no_grad():
            right = (z.argmax(-1) == target).float()
            of = lambda values, rows: values[rows].mean().item()
            answer = (kind == ANSWER) & (target != self.blank)
            figures = dict(T=ids.shape[1] - 1, text=of(ce, kind == TEXT), answer=of(ce, answer), hit=of(right, answer), pair=of(right, kind == PAIR),
                           index=aux.index.item(), lost=aux.lost.item(), held=aux.kept / aux.total if aux.total else math.nan,
                           guide=float(aux.guide), named=float(aux.named))
        return {k: v.grad for k, v in work.items() if v.grad is not None}, figures, torch.stack(keep['loads'])


def shared(memory, shapes):
    """f32 tensors of these shapes {name: shape}, one after the other in the memory file `memory`."""
    sizes = [math.prod(s) for s in shapes.values()]
    flat = torch.from_file(f'/proc/self/fd/{memory}', shared=True, size=sum(sizes), dtype=torch.float32)
    return {k: v.view(s) for (k, s), v in zip(shapes.items(), flat.split(sizes))}


class Halves:
    """Both halves: one here, one in a process of the same program. `masters` and the other's gradient lie in shared memory."""

    def __init__(self, half, memory, theirs, command):
        self.half, self.theirs = half, theirs
        self.pipe, other = mp.Pipe()
        self.process = subprocess.Popen([*command, '--half', f'{memory},{other.fileno()}'], pass_fds=(memory, other.fileno()))
        other.close()

    def close(self):
        self.pipe.close()
        self.process.wait()

    def gradient(self, step, stage):
        """-> {name: gradient}, figures, loads of the whole batch"""
        self.pipe.send((step, stage))
        grads, figures, loads = self.half.gradient(step, stage, 0)
        names, more, other_loads = self.pipe.recv()
        total = {k: grads[k].float() / 2 if k in grads else torch.zeros_like(self.theirs[k]) for k in {*grads, *names}}
        for k in names:
            total[k].add_(self.theirs[k], alpha=0.5)
        return total, {k: mean([figures[k], more[k]]) for k in figures}, loads + torch.tensor(other_loads)


def serve(half, theirs, pipe):
    """The other process: answers until the first one is gone."""
    pipe = Connection(pipe)
    while True:
        try:
            step, stage = pipe.recv()
        except EOFError:
            return
        grads, figures, loads = half.gradient(step, stage, 1)
        for k, v in grads.items():
            theirs[k].copy_(v)
        pipe.send((sorted(grads), figures, loads.tolist()))
