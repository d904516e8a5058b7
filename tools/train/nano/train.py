"""Trains nano-v41:  python -m nano.train STATE_FOLDER [--tokens MILLIONS]

STATE_FOLDER holds real.txt (python -m nano.text), checkpoint.pt, log.jsonl. A killed run goes on from its last checkpoint. Without
a checkpoint, --from MODEL_FOLDER goes on from an exported model: its weights as the file has them, the optimizer anew.
"""
import argparse
import glob
import json
import math
import os
import sys
import time

import torch
from tokenizers import Tokenizer

from . import export, schedule, weights as wt
from .engram import Layout
from .halves import Half, Halves, mean, serve, shared

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOKENS = 4096                       # of a step
LR, WARM, REWARM = 0.003, 100, 10   # AdamW; steps of warm-up at the start and after a resume
SAVE_SECONDS = 180
KEEP, KEPT = 4, 3                   # checkpoints that stay: one every so many million tokens, so many
AVERAGED = 4                        # every so many steps the masters enter their moving average ..
SHARE = 0.01                        # .. by this share: about 1.6 million tokens


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

    def step(self, grads, lr, index_lr):
        """-> norm of the gradient; a step with a broken gradient is left out."""
        for k, p in self.parameters.items():
            p.grad = grads.get(k)
        norm = torch.nn.utils.clip_grad_norm_([p for p in self.parameters.values() if p.grad is not None], 1.0).item()
        if math.isfinite(norm):
            for g in self.adam.param_groups:
                g['lr'] = LR * lr * g['scale'] * (index_lr if g['indexer'] else 1.0)
            self.adam.step()
        return norm


class Setting:
    """What both processes know: config, tensors in shared memory, half of a batch."""

    def __init__(self, folder, memory=None, compiled=True, tokens=TOKENS):
        config = read_config()
        tok = Tokenizer.from_file(os.path.join(HERE, 'tokenizer.json'))
        layout = Layout(config['text_config'], tok)
        self.specs = wt.specs(config, layout.compressed)
        shapes = {(part, k): s.shape for part in ('master', 'gradient') for k, s in self.specs.items()}
        self.memory = memory
        if memory is None:
            self.memory = os.memfd_create('nano')
            os.truncate(self.memory, 4 * sum(map(math.prod, shapes.values())))
        tensors = shared(self.memory, shapes)
        self.masters, self.theirs = ({k: tensors[part, k] for k in self.specs} for part in ('master', 'gradient'))
        self.half = Half(config, tok, layout, self.specs, self.masters, os.path.join(folder, 'real.txt'), tokens // 2, compiled)


class Run:
    def __init__(self, folder, compiled=True, tokens=TOKENS, model=None):
        self.folder, self.tokens = folder, tokens
        self.path = os.path.join(folder, 'checkpoint.pt')
        resumed = os.path.exists(self.path)
        if resumed:
            model = None                         # the checkpoint is further on
        s = Setting(folder, compiled=compiled, tokens=tokens)
        self.masters = s.masters
        trained = export.trained(model) if model else dict(tokens=0, stage=0)
        for k, v in (export.read(model)[-1] if model else wt.initial(s.specs)).items():
            self.masters[k].copy_(v)
        self.optimizer = Optimizer(self.masters, s.specs)
        command = [sys.executable, '-m', 'nano.train', folder, '--step-tokens', str(tokens), *([] if compiled else ['--eager'])]
        self.halves = Halves(s.half, s.memory, s.theirs, command)
        self.average, self.averaged = {k: v.clone() for k, v in self.masters.items()}, 0
        self.state = dict(step=trained['tokens'] // tokens, stage_tokens=0, hit=0.0, seconds=0.0, **trained)
        self.warm = WARM
        if resumed:
            self.load()

    def load(self):
        z = torch.load(self.path)
        with torch.no_grad():
            for k, v in z['masters'].items():
                self.masters[k].copy_(v)
        self.optimizer.adam.load_state_dict(z['adam'])
        self.state, self.warm = z['state'], REWARM
        self.averaged = z.get('averaged', 0)
        self.average = z['average'] if self.averaged else {k: v.clone() for k, v in self.masters.items()}

    def save(self):
        tmp = self.path + '.tmp'
        torch.save(dict(masters=self.masters, average=self.average, averaged=self.averaged, adam=self.optimizer.adam.state_dict(), state=self.state), tmp)
        os.replace(tmp, self.path)
        self.keep()

    def keep(self):
        """Another name for the first checkpoint of every KEEP million tokens, so that a bad stretch can be taken back; the last KEPT."""
        name = os.path.join(self.folder, 'checkpoint-{:03d}.pt'.format(int(self.state['tokens'] / 1e6 // KEEP * KEEP)))
        if not os.path.exists(name):
            os.link(self.path, name)
        for old in sorted(glob.glob(os.path.join(self.folder, 'checkpoint-*.pt')))[:-KEPT]:
            os.remove(old)

    def step(self, stage, lr):
        """One step -> figures for the log"""
        grads, figures, loads = self.halves.gradient(self.state['step'], stage)
        figures['grad'] = self.optimizer.step(grads, lr * stage.lr, stage.index_lr)
        self.balance(loads, lr)
        if self.state['step'] % AVERAGED == 0:
            self.take_average()
        return figures

    @torch.no_grad()
    def take_average(self):
        """The moving average is what is exported: at a constant rate it is a better model than any of its steps."""
        self.averaged += 1
        torch._foreach_lerp_(list(self.average.values()), [self.masters[k] for k in self.average], max(SHARE, 1 / (self.averaged + 1)))

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
            r = self.step(stage, min(1.0, (s['step'] - started + 1) / self.warm) * schedule.decay(s['tokens'], budget))
            s['step'] += 1
            s['tokens'] += self.tokens
            s['stage_tokens'] += self.tokens
            s['seconds'] += time.time() - t
            if math.isfinite(r['hit']):
                s['hit'] += 0.03 * (r['hit'] - s['hit'])
            seen.append(r)
            if len(seen) == 20:
                out = dict(step=s['step'], tokens=round(s['tokens'] / 1e6, 3), stage=stage.name, ema=round(s['hit'], 4),
                           **{k: round(mean([x[k] for x in seen]), 4) for k in r},
                           rate=round(20 * self.tokens / (time.time() - since)), minutes=round(s['seconds'] / 60, 1))
                print(json.dumps(out), file=log, flush=True)
                seen, since = [], time.time()
            if schedule.ended(stage, s['hit'], s['stage_tokens']):
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
    a.add_argument('--tokens', type=float, default=80.0, help='budget, in millions; the rate falls over the last seventh')
    a.add_argument('--from', dest='model', help='an exported model to go on from when STATE_FOLDER has no checkpoint')
    a.add_argument('--eager', action='store_true', help='compile nothing')
    a.add_argument('--step-tokens', type=int, default=TOKENS, help='tokens of a step, half of them in each process')
    a.add_argument('--half', help=argparse.SUPPRESS)
    a = a.parse_args()
    torch.set_num_threads(1)                 # two processes, see halves.py
    if a.half:
        memory, pipe = map(int, a.half.split(','))
        s = Setting(a.folder, memory, not a.eager, a.step_tokens)
        return serve(s.half, s.theirs, pipe)
    Run(a.folder, not a.eager, a.step_tokens, a.model).train(a.tokens * 1e6)


if __name__ == '__main__':
    main()
