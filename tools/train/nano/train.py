"""Trains nano-v41:  python -m nano.train STATE_FOLDER [--tokens MILLIONS]

STATE_FOLDER holds real.txt (python -m nano.text), checkpoint.pt, log.jsonl, train.pid. A killed run goes on from its last checkpoint.
"""
import argparse
import json
import math
import os
import time

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from . import batches, schedule, text, weights as wt
from .documents import ANSWER, PAIR, TEXT
from .engram import Layout
from .model import Forward, logits

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOKENS = 4096                       # a step
LR, WARM = 0.003, 50                # AdamW; warm-up steps after every start
TEXT_SHARE = 0.4                    # of the text tokens enter the loss
PROBES = 256                        # probe rows a step
ANSWER_WEIGHT, PAIR_WEIGHT = 8.0, 4.0
SAVE_SECONDS = 180


def read_config(path=os.path.join(HERE, 'config.json')):
    with open(path, encoding='utf-8') as f:
        return json.load(f)


class Optimizer:
    """AdamW over the masters. Groups: matrices decay, the rest does not; the indexer has its own rate."""

    def __init__(self, masters, specs):
        self.parameters = {k: torch.nn.Parameter(v) for k, v in masters.items() if not k.endswith('gate.bias')}
        groups = {}
        for k, p in self.parameters.items():
            matrix = specs[k].kind in ('fp8', 'fp4') or 'compressor.w' in k or 'indexer.w' in k
            scale = 0.3 if '.hc_' in k or k.endswith('attn_sink') else 1.0
            groups.setdefault(('indexer' in k, matrix, scale), []).append(p)
        self.adam = torch.optim.AdamW([dict(params=p, indexer=i, scale=s, weight_decay=0.05 if m else 0.0) for (i, m, s), p in groups.items()],
                                      lr=LR, betas=(0.9, 0.98), eps=1e-8, fused=True)

    def step(self, work, lr, index_lr):
        """Takes the gradients of the working copies. -> their norm; a step with a broken gradient is left out."""
        grads = []
        for k, p in self.parameters.items():
            g = work[k].grad
            p.grad = None if g is None else g.float()
            if g is not None:
                grads.append(p)
        norm = torch.nn.utils.clip_grad_norm_(grads, 1.0).item()
        if math.isfinite(norm):
            for g in self.adam.param_groups:
                g['lr'] = LR * lr * g['scale'] * (index_lr if g['indexer'] else 1.0)
            self.adam.step()
        return norm


class Run:
    def __init__(self, folder, compiled=True):
        self.folder = folder
        self.config = read_config()
        self.c = self.config['text_config']
        tok_file = os.path.join(HERE, 'tokenizer.json')
        self.tok = Tokenizer.from_file(tok_file)
        self.blank = self.tok.encode(' ', add_special_tokens=False).ids[0]
        layout = Layout(self.c, self.tok)
        self.specs = wt.specs(self.config, layout.compressed)
        self.masters = wt.initial(self.specs)
        self.optimizer = Optimizer(self.masters, self.specs)
        self.forward = Forward(self.config, layout)
        self.round = wt.round_weight
        if compiled:
            self.forward.compile()
            self.round = torch.compile(wt.round_weight, dynamic=False)
        self.state = dict(step=0, tokens=0, stage=0, stage_tokens=0, hit=0.0, seconds=0.0)
        self.ahead = batches.Ahead(tok_file, text.load(os.path.join(folder, 'real.txt'))[0], TOKENS)
        self.path = os.path.join(folder, 'checkpoint.pt')
        if os.path.exists(self.path):
            self.load()

    def load(self):
        z = torch.load(self.path)
        with torch.no_grad():
            for k, v in z['masters'].items():
                self.masters[k].copy_(v)
        self.optimizer.adam.load_state_dict(z['adam'])
        self.state = z['state']

    def save(self):
        tmp = self.path + '.tmp'
        torch.save(dict(masters=self.masters, adam=self.optimizer.adam.state_dict(), state=self.state), tmp)
        os.replace(tmp, self.path)

    def step(self, stage, lr):
        """One step -> figures for the log"""
        s, g = self.state, torch.Generator().manual_seed(self.state['step'])
        ids, kinds = self.ahead.get(1_000_000 + s['step'], stage)
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
        norm = self.optimizer.step(work, lr * stage.lr, stage.index_lr)
        self.balance(keep['loads'], lr)
        with torch.no_grad():
            answer = (kind == ANSWER) & (target != self.blank)
            hit = (z[answer].argmax(-1) == target[answer]).float().mean().item()
            pair = (z[kind == PAIR].argmax(-1) == target[kind == PAIR]).float().mean().item()
            mean = lambda m: ce[m].mean().item()
            return dict(T=ids.shape[1] - 1, text=mean(kind == TEXT), answer=mean(answer), hit=hit, pair=pair, index=aux.index.item(), lost=aux.lost.item(),
                        held=aux.kept / aux.total if aux.total else float('nan'), guide=float(aux.guide), named=float(aux.named), grad=norm)

    def balance(self, loads, lr):
        """The router's bias moves against overload; nothing else balances the experts."""
        for l, load in enumerate(loads):
            share = load / load.sum()
            self.masters[f'layers.{l}.ffn.gate.bias'] += 0.003 * max(lr, 0.1) * torch.sign(1 / len(share) - share)

    def train(self, budget):
        s, log = self.state, open(os.path.join(self.folder, 'log.jsonl'), 'a')
        started = s['step']
        print(json.dumps(dict(start=s)), file=log, flush=True)
        saved, seen, since = time.time(), [], time.time()
        while s['tokens'] < budget:
            stage = schedule.STAGES[s['stage']]
            t = time.time()
            r = self.step(stage, min(1.0, (s['step'] - started + 1) / WARM) * schedule.decay(s['tokens'], budget))
            s['step'] += 1
            s['tokens'] += TOKENS
            s['stage_tokens'] += TOKENS
            s['seconds'] += time.time() - t
            if math.isfinite(r['hit']):
                s['hit'] += 0.03 * (r['hit'] - s['hit'])
            seen.append(r)
            if len(seen) == 20:
                mean = lambda k: round(sum(v) / len(v), 4) if (v := [x[k] for x in seen if math.isfinite(x[k])]) else None
                out = dict(step=s['step'], tokens=round(s['tokens'] / 1e6, 3), stage=stage.name, ema=round(s['hit'], 4), **{k: mean(k) for k in r},
                           rate=round(20 * TOKENS / (time.time() - since)), minutes=round(s['seconds'] / 60, 1))
                print(json.dumps(out), file=log, flush=True)
                seen, since = [], time.time()
            if s['hit'] >= stage.until and s['stage_tokens'] >= stage.least * 1e6:
                s.update(stage=s['stage'] + 1, stage_tokens=0)
                print(json.dumps(dict(next=schedule.STAGES[s['stage']].name, step=s['step'])), file=log, flush=True)
                self.save()
            if time.time() - saved > SAVE_SECONDS:
                self.save()
                saved = time.time()
        self.save()


def main():
    a = argparse.ArgumentParser()
    a.add_argument('folder')
    a.add_argument('--tokens', type=float, default=80.0, help='budget, in millions; the rate falls over the last tenth')
    a = a.parse_args()
    torch.set_num_threads(2)
    with open(os.path.join(a.folder, 'train.pid'), 'w') as f:
        f.write(str(os.getpid()))
    Run(a.folder).train(a.tokens * 1e6)


if __name__ == '__main__':
    main()
