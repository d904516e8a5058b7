"""Batches of documents. A batch depends on its seed, length and stage only."""
import random

import torch

from .auxiliary import Probes
from .documents import ANSWER, PAD, PAIR, TEXT

CHARS_PER_TOKEN = 3.95
EARLY_ONLY = 256        # tokens of documents that are all of the early kind, where a stage has any


def document(writer, seed, T, stage):
    """-> ids, kinds of at most T + 1 tokens"""
    r = random.Random(seed)
    chars = int(T * CHARS_PER_TOKEN) - 20
    u = r.random()
    if u < stage.pairs + stage.stories:
        ids, kinds = writer.encode(writer.pairs(seed, chars) if u < stage.pairs else writer.story(seed, int(chars * 1.05)))
        return ids[:T + 1], kinds[:T + 1]
    questions, least = r.choice(stage.questions(T)), chars // 2
    early = stage.early > 0 and (T <= EARLY_ONLY or r.random() < stage.early)
    while True:
        ids, kinds = writer.encode(writer.lookup(seed, chars, questions, facts=stage.facts, early=early)[0])
        if len(ids) <= T + 1:
            return ids, kinds
        chars = int(chars * min(0.97, (T + 1) / len(ids)))
        if chars < least:                                     # the questions alone fill the document
            chars, questions = 2 * least, questions - 1


def make(writer, seed, T, stage, tokens):
    """-> ids [B, T + 1], kinds [B, T + 1]; B T = tokens"""
    rows = [document(writer, seed * 1000 + b, T, stage) for b in range(tokens // T)]
    ids = torch.tensor([i + [2] * (T + 1 - len(i)) for i, _ in rows])
    kinds = torch.tensor([k + [PAD] * (T + 1 - len(k)) for _, k in rows])
    return ids, kinds


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
