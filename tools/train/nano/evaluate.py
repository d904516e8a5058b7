"""Measures a folder in the official form on held-out documents, in exact f32 with the deployed quantizers:
   python -m nano.evaluate MODEL_FOLDER REAL_TXT [--documents N] [--samples] [--dense]

Held-out: seeds and real sentences that training never uses. Look-up accuracy counts the first question about each fact (an earlier
answer would shorten the distance), greedy, all tokens of the answer right; distance is counted from the fact's last statement.
"""
import argparse
import json

import torch
import torch.nn.functional as F

from . import export, text
from .batches import CHARS_PER_TOKEN
from .documents import ANSWER, ASSISTANT, BOS, EOS, TEXT, USER, Writer
from .model import Forward, Options, deployed, logits

SEED = 5_000_000_000
BINS = {50: (33, 80), 200: (140, 270), 500: (380, 640), 1000: (800, 1250), 2000: (1650, 2400)}
LENGTHS = (384, 1024, 2304)
PAD_ID = 2


def heldout(writer, count, T, questions, seed):
    """-> [{ids, kinds, answers: [(first, end, distance, info)]}] of about T tokens"""
    out = []
    for i in range(count):
        chars = int(T * CHARS_PER_TOKEN) - 20
        while True:
            pieces, info = writer.lookup(seed + i, chars, questions)
            ids, kinds = writer.encode(pieces)
            if len(ids) <= T:
                break
            chars = int(chars * min(0.97, T / len(ids)))
        starts = [p for p in range(1, len(ids)) if kinds[p] == ANSWER and kinds[p - 1] != ANSWER]
        ends = [next(e for e in range(a, len(ids) + 1) if e == len(ids) or kinds[e] != ANSWER) for a in starts]
        text_ = pieces[0][0]
        skip = len(BOS + USER) if text_.startswith(BOS + USER) else len(BOS)
        at = [len(writer.tok.encode(text_[:skip + f['char']], add_special_tokens=False).ids) for f in info]
        out.append(dict(ids=ids, kinds=kinds, answers=[(a, e, a - p, f) for a, e, p, f in zip(starts, ends, at, info)]))
    return out


class Measure:
    def __init__(self, forward, weights, writer, options):
        self.forward, self.weights, self.writer, self.options = forward, weights, writer, options

    @torch.no_grad()
    def logits(self, ids, probes=None):
        w = self.forward.c['sliding_window']
        hidden, aux = self.forward(self.weights, torch.tensor([ids + [PAD_ID] * (-len(ids) % w)]), self.options, probes)
        return logits(hidden[:len(ids)], self.weights).float(), aux

    def distances(self, documents, questions=12):
        """-> {distance: hits per document}, {relation: hits}, text losses, (held, total) mass"""
        hits, relations, losses, mass = {b: [] for b in BINS}, {}, [], [0.0, 0.0]
        for T in LENGTHS:
            for d in heldout(self.writer, documents if T < 2000 else -(-documents // 2), T, questions, SEED + 10_000_000 + T * 1000):
                z, aux = self.logits(d['ids'], self.probes(d))
                mass[0] += aux.kept
                mass[1] += aux.total
                target, kinds = torch.tensor(d['ids'])[1:], torch.tensor(d['kinds'])[1:]
                best = z[:-1].argmax(-1)
                losses.append(F.cross_entropy(z[:-1][kinds == TEXT], target[kinds == TEXT]).item())
                seen, here = set(), {b: [] for b in BINS}
                for a, e, distance, f in d['answers']:
                    if (f['relation'], f['char']) in seen:
                        continue
                    seen.add((f['relation'], f['char']))
                    ok = bool((best[a - 1:e - 1] == target[a - 1:e - 1]).all())
                    relations.setdefault(f['relation'] + (' corrected' if f['wrong'] else ''), []).append(ok)
                    for b, (low, high) in BINS.items():
                        if low <= distance <= high:
                            here[b].append(ok)
                for b in BINS:
                    if here[b]:
                        hits[b].append(here[b])
        return hits, relations, losses, mass

    def probes(self, d):
        """Every 8th position and all answers: where the mass of the selection is measured."""
        from .auxiliary import Probes
        n = len(d['ids'])
        at = sorted({*range(0, n - 1, 8), *(a - 1 for a, *_ in d['answers'])})
        at = torch.tensor([at])
        return Probes(at, torch.zeros_like(at, dtype=torch.bool), None, torch.zeros_like(at))

    def generate(self, prompt, count):
        ids = self.writer.tok.encode(prompt, add_special_tokens=False).ids
        start, eos = len(ids), self.writer.tok.token_to_id(EOS)
        while len(ids) < start + count and ids[-1] != eos:
            ids.append(int(self.logits(ids)[0][-1].argmax()))
        return self.writer.tok.decode(ids[start:], skip_special_tokens=False)


def interval(hits):
    """Accuracy and half a 95 % interval, by a bootstrap over documents (lists of hits)."""
    s, c = (torch.tensor([f(h) for h in hits], dtype=torch.float) for f in (sum, len))
    pick = torch.randint(0, len(hits), (1000, len(hits)), generator=torch.Generator().manual_seed(1))
    b = s[pick].sum(1) / c[pick].sum(1)
    return round((s.sum() / c.sum()).item(), 4), round((b.quantile(0.975) - b.quantile(0.025)).item() / 2, 4)


def report(measure, documents):
    hits, relations, losses, mass = measure.distances(documents)
    out = {'distance': {b: dict(zip(('accuracy', 'pm'), interval(h)), lookups=sum(map(len, h))) for b, h in hits.items() if h}}
    out['relations'] = {r: [round(sum(x) / len(x), 3), len(x)] for r, x in sorted(relations.items())}
    out['text_loss'] = round(sum(losses) / len(losses), 4)
    if mass[1]:
        out['held_mass'] = round(mass[0] / mass[1], 4)
    return out


PROMPTS = (BOS + 'In the morning the', BOS + 'And the LORD said unto', BOS + 'The old man', BOS + 'She was')


def main():
    a = argparse.ArgumentParser()
    a.add_argument('folder')
    a.add_argument('real')
    a.add_argument('--documents', type=int, default=32)
    a.add_argument('--samples', action='store_true')
    a.add_argument('--dense', action='store_true', help='no quantizers, no selection')
    a = a.parse_args()
    torch.set_num_threads(2)
    config, tok, layout, _, weights = export.read(a.folder)
    c = config['text_config']
    options = Options(exact=True, sinkhorn=c['hc_sinkhorn_iters']) if a.dense else deployed(c, exact=True, index_loss=True)
    m = Measure(Forward(config, layout), weights, Writer(tok, text.load(a.real)[1]), options)
    print(json.dumps(report(m, a.documents), indent=1))
    if a.samples:
        for p in PROMPTS:
            print(repr(p), '->', repr(m.generate(p, 40)))
        d = heldout(m.writer, 3, 500, 3, SEED + 77)
        for x in d:
            first, end, distance, f = x['answers'][0]
            prompt = tok.decode(x['ids'][:first], skip_special_tokens=False)
            print('...' + repr(prompt[-160:]), '->', repr(m.generate(prompt, 4)), 'right:', f['answer'], 'distance', distance)


if __name__ == '__main__':
    main()
