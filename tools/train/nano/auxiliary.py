"""Auxiliary losses, all on a few *probe* rows per sequence, for which the dense attention is worked out.

- index: KL of the index scores to the dense attention that used the selection, mean over heads and over the layers of the group (of the candidates' source: all
  layers that select among these);
- lost: share of the joined softmax that dense attention would give to entries outside the selection. As a loss it teaches
  attention to stay where the indexer can follow; as a figure, 1 - lost / global mass is the mass the selected set holds;
- guide: half of the heads at look-up rows are pulled towards the entries that hold the wanted word (an aid, removed early);
- naming: the attention output at look-up rows, read by the head alone, should name the word (an aid, removed early).
"""
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from . import indexer as ix


@dataclass
class Probes:
    at: torch.Tensor            # [B, R] token positions
    lookup: torch.Tensor        # [B, R] bool: the next token can be looked up
    holds: torch.Tensor         # [B, R, T] bool: where the next token stood before
    word: torch.Tensor          # [B, R] the next token


class Auxiliary:
    def __init__(self, c, opt, probes):
        self.c, self.on, self.select = c, probes is not None and opt.index_loss, opt.select
        self.guiding = probes is not None and probes.holds is not None
        self.on = self.on or self.guiding
        self.index = self.lost = self.guide = self.named = torch.zeros(())
        self.group, self.score, self.kept, self.total = [], None, 0.0, 0.0
        self.pool_group, self.pool_score = [], None
        if probes is not None:
            self.probes, self.at = probes, probes.at
            B, R = self.at.shape
            self.batch = torch.arange(B)[:, None]
            self.n_lookup = probes.lookup.sum().clamp_min(1)

    def take(self, x):
        """[B, T, ..] -> rows of the probes [B, R, ..]"""
        return x[self.batch, self.at]

    def rows_of(self, eligible):
        """[1, T, S] -> [B, R, S]"""
        return eligible[0][self.at]

    def new_group(self, qi, head, store, pool=False):
        """An index source, of the layers up to the next one; with `pool` all later layers select among its candidates, so it learns from them too."""
        self.close_group()
        self.store = store
        self.score = ix.scores(qi, head, store.keys) + self.rows_of(store.eligible)
        if pool:
            self.pool_score = self.score
        if self.select:
            picked = self.take(store.picked)
            inside = torch.zeros(*picked.shape[:2], self.score.shape[-1] + 1, dtype=torch.bool)
            self.inside = inside.scatter_(-1, torch.where(picked >= 0, picked, inside.shape[-1] - 1), True)[..., :-1]

    def attention(self, layer, p, store):
        """p [B, R, H, S]: dense probabilities of one layer"""
        self.group.append(p.detach().mean(2))
        if self.pool_score is not None:
            self.pool_group.append(self.group[-1])
        if self.select:
            lost = (p * ~self.inside[:, :, None]).sum(-1)
            self.lost = self.lost + lost.mean()
            self.kept += float(p.detach().sum() - lost.detach().sum())
            self.total += float(p.detach().sum())
        if self.guiding:
            S, H = p.shape[-1], p.shape[2]
            holds = self.probes.holds[..., :S * store.m].unflatten(-1, (S, store.m)).any(-1)
            mass = (p[:, :, :H // 2] * holds[:, :, None]).sum(-1).mean(-1)
            self.guide = self.guide - ((mass + 1e-3).log() * self.probes.lookup).sum() / self.n_lookup

    def naming(self, layer, y, w):
        """y [N, D]: attention output; only of the layers behind the last KV source"""
        if not self.guiding or layer < self.c['kv_source_layer_ids'][-1]:
            return
        B = self.at.shape[0]
        y = self.take(y.view(B, -1, y.shape[-1]))[self.probes.lookup].float()
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6) * w['norm']
        z = F.linear(y.to(w['head'].dtype), w['head']).float()
        self.named = self.named + F.cross_entropy(z, self.probes.word[self.probes.lookup])

    def close_group(self):
        if self.score is not self.pool_score:
            self.compare(self.group, self.score)
        self.group = []

    def close(self):
        self.close_group()
        self.compare(self.pool_group, self.pool_score)

    def compare(self, group, score):
        if group:
            p = sum(group)
            mass = p.sum(-1, keepdim=True)
            log_q = score.log_softmax(-1).clamp_min(-1e4)       # what lies far below must still be told to rise
            ok = (mass > 1e-6).float()
            p = p / mass.clamp_min(1e-6)
            self.index = self.index + ((p * (p.clamp_min(1e-9).log() - log_q)).sum(-1, keepdim=True) * ok).sum() / ok.sum().clamp_min(1)
