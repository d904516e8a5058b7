"""Batches of documents, made ahead in a second process. A batch depends on its seed and stage only."""
import multiprocessing as mp
import random
from collections import deque

import torch

from .auxiliary import Probes
from .documents import ANSWER, PAD, PAIR, TEXT, Writer

CHARS_PER_TOKEN = 3.95


def document(writer, seed, T, stage):
    """-> ids, kinds of at most T + 1 tokens"""
    r = random.Random(seed)
    chars = int(T * CHARS_PER_TOKEN) - 20
    u = r.random()
    if u < stage.pairs + stage.stories:
        ids, kinds = writer.encode(writer.pairs(seed, chars) if u < stage.pairs else writer.story(seed, int(chars * 1.05)))
        return ids[:T + 1], kinds[:T + 1]
    questions = r.choice(stage.questions(T))
    while True:
        ids, kinds = writer.encode(writer.lookup(seed, chars, questions, facts=stage.facts)[0])
        if len(ids) <= T + 1:
            return ids, kinds
        chars = int(chars * min(0.97, (T + 1) / len(ids)))


def make(writer, seed, stage, tokens):
    """-> ids [B, T + 1], kinds [B, T + 1]; T is drawn from the stage's lengths, B T = tokens"""
    T = random.Random(seed).choice(stage.lengths)
    rows = [document(writer, seed * 1000 + b, T, stage) for b in range(tokens // T)]
    ids = torch.tensor([i + [2] * (T + 1 - len(i)) for i, _ in rows])
    kinds = torch.tensor([k + [PAD] * (T + 1 - len(k)) for _, k in rows])
    return ids, kinds


def _work(tok_file, real, jobs, results):
    from tokenizers import Tokenizer
    torch.set_num_threads(1)
    writer = Writer(Tokenizer.from_file(tok_file), real)
    for job in iter(jobs.get, None):
        ids, kinds = make(writer, *job)
        results.put((job[0], ids.numpy(), kinds.numpy()))


class Ahead:
    """Keeps `depth` batches in the making."""

    def __init__(self, tok_file, real, tokens, depth=3):
        ctx = mp.get_context('spawn')
        self.jobs, self.results = ctx.Queue(), ctx.Queue()
        self.process = ctx.Process(target=_work, args=(tok_file, real, self.jobs, self.results), daemon=True)
        self.process.start()
        self.tokens, self.depth, self.waiting = tokens, depth, deque()

    def get(self, seed, stage):
        """The batch of `seed` in `stage`; batches ordered for another stage are thrown away."""
        while self.waiting and self.waiting[0] != (seed, stage):
            self.waiting.popleft()
            self.results.get()
        for s in range(seed, seed + self.depth):
            if (s, stage) not in self.waiting:
                self.waiting.append((s, stage))
                self.jobs.put((s, stage, self.tokens))
        self.waiting.popleft()
        _, ids, kinds = self.results.get()
        return torch.from_numpy(ids), torch.from_numpy(kinds)


def probes(ids, kinds, per_batch, guide, blank, g):
    """Chooses the probe rows of a batch, look-up rows first. `blank`: the token " ", which is never worth looking up."""
    x, y, k = ids[:, :-1], ids[:, 1:], kinds[:, 1:]
    B, T = x.shape
    R = max(1, per_batch // B)
    want = ((k == ANSWER) | (k == PAIR)) & (y != blank)
    order = want.float() + 0.9 * torch.rand(B, T, generator=g) - 2.0 * (k == PAD)
    at = order.topk(R, -1).indices.sort(-1).values
    word = y.gather(1, at)
    lookup = want.gather(1, at)
    holds = None
    if guide:
        holds = (x[:, None] == word[..., None]) & (torch.arange(T) < at[..., None]) & lookup[..., None]
        lookup = lookup & holds.any(-1)
    return Probes(at, lookup, holds, word)


def loss_rows(kinds, share, g):
    """Flat positions whose next token enters the loss: all answers and pairs, a share of the text."""
    k = kinds[:, 1:].flatten()
    return ((k == ANSWER) | (k == PAIR) | ((k >= TEXT) & (torch.rand(k.shape, generator=g) < share))).nonzero().flatten()
