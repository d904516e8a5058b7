"""Measures what each approximation costs, with the engine:
   python -m ablate MODEL DOCUMENTS.json OUT [--seekline PROGRAM] [--settings NAME ..] [--limit N]

OUT gets <setting>.jsonl (figures of each document; a run that was stopped goes on from them), report.json, report.md and plots.
"""
import argparse
import json
import os
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from . import measure, model, report
from .engine import Engine
from .settings import REFERENCE, chosen

CHUNK = 8           # documents a call of the engine: their logits lie in memory


class Results:
    """Figures of one setting by document, kept in a file."""

    def __init__(self, folder, setting):
        self.path = os.path.join(folder, setting.name.replace('/', '_') + '.jsonl')
        self.found = {}
        if os.path.exists(self.path):
            with open(self.path, encoding='utf-8') as f:
                self.found = {r['id']: r for r in map(json.loads, f)}

    def add(self, figures):
        with open(self.path, 'a', encoding='utf-8') as f:
            for r in figures:
                self.found[r['id']] = r
                print(json.dumps(r), file=f)

    def lacks(self, documents):
        return any(d['id'] not in self.found for d in documents)


def run(engine, folder, documents, settings, results, jobs):
    """Chunk by chunk: the reference, then the settings that lack it, `jobs` at a time."""
    for first in range(0, len(documents), CHUNK):
        chunk = documents[first:first + CHUNK]
        due = [s for s in [REFERENCE, *settings] if results[s.name].lacks(chunk)]
        if not due:
            continue
        reference = engine.logits(folder[REFERENCE.name], REFERENCE, chunk)

        def figures(s):
            other = reference if s is REFERENCE else engine.logits(folder[s.name], s, chunk)
            return [measure.document(d, z, *x) for d, (z, _), x in zip(chunk, reference, other)]

        with ThreadPoolExecutor(jobs) as pool:
            for s, found in zip(due, pool.map(figures, due)):
                results[s.name].add(found)
        print(f'{first + len(chunk)} of {len(documents)} documents', flush=True)


def main():
    a = argparse.ArgumentParser(prog='ablate')
    a.add_argument('model', help='checkpoint folder')
    a.add_argument('documents', help='made by python -m ablate.documents')
    a.add_argument('out')
    a.add_argument('--seekline', default='build/release/seekline')
    a.add_argument('--settings', nargs='+', help='names or groups; default: all')
    a.add_argument('--limit', type=int, help='documents at most, spread over the lengths')
    a.add_argument('--done', action='store_true', help='run nothing: report on the documents that every setting has')
    a.add_argument('--arithmetic', choices=('f32', 'fast'), default='f32', help='of all settings but the one that changes it; fast takes a third of the time')
    a.add_argument('--jobs', type=int, default=os.cpu_count(), help='settings at a time, one thread each')
    a.add_argument('--no-plots', action='store_true')
    a = a.parse_args()
    os.makedirs(a.out, exist_ok=True)
    with open(a.documents, encoding='utf-8') as f:
        documents = json.load(f)['documents']
    if a.limit:
        documents = documents[::max(1, len(documents) // a.limit)][:a.limit]
    with tempfile.TemporaryDirectory() as scratch:
        engine = Engine(a.seekline, scratch, 1, a.arithmetic)
        wanted = chosen(a.settings, a.arithmetic)
        refused = [(s, m) for s in wanted if (m := engine.missing(s))]
        for s, missing in refused:
            print(f'{s.name}: not in this build (seekline logits has no {", ".join(missing)})')
        settings = [s for s in wanted if not engine.missing(s)]
        folder = {s.name: model.derive(a.model, s, scratch) for s in [REFERENCE, *settings]}
        results = {s.name: Results(a.out, s) for s in [REFERENCE, *settings]}
        if a.done:
            documents = [d for d in documents if not any(r.lacks([d]) for r in results.values())]
        run(engine, folder, documents, settings, results, a.jobs)
    figures = {s.name: [results[s.name].found[d['id']] for d in documents] for s in [REFERENCE, *settings]}
    rows = [report.row(s, documents, figures[s.name], figures[REFERENCE.name]) for s in [REFERENCE, *settings]]
    with open(os.path.join(a.out, 'report.json'), 'w', encoding='utf-8') as f:
        json.dump({'arithmetic': a.arithmetic, 'lengths': Counter(d['id'].split('-')[0] for d in documents), 'rows': rows, 'refused': [{'name': s.name, 'missing': m} for s, m in refused]}, f, indent=1)
    text = '\n'.join([report.table(rows, refused), report.distances(rows), report.prompts(rows)])
    with open(os.path.join(a.out, 'report.md'), 'w', encoding='utf-8') as f:
        f.write(text)
    print(text)
    if not a.no_plots:
        from . import plots
        plots.write(rows, a.out)


if __name__ == '__main__':
    main()
