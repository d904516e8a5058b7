"""Measures what each approximation costs, with the engine:
   python -m ablate MODEL DOCUMENTS.json OUT [--seekline PROGRAM] [--settings NAME ..] [--limit N]

OUT gets <setting>.jsonl (figures of each document; a run that was stopped goes on from them), report.json, report.md and plots.
"""
import argparse
import json
import os
import tempfile

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


def run(engine, folder, documents, settings, results):
    for first in range(0, len(documents), CHUNK):
        chunk = documents[first:first + CHUNK]
        due = [s for s in [REFERENCE, *settings] if results[s.name].lacks(chunk)]
        if not due:
            continue
        exact = engine.logits(folder[REFERENCE.name], REFERENCE, chunk)
        for s in due:
            other = exact if s is REFERENCE else engine.logits(folder[s.name], s, chunk)
            results[s.name].add([measure.document(*x) for x in zip(chunk, exact, other)])
        print(f'{first + len(chunk)} of {len(documents)} documents', flush=True)


def main():
    a = argparse.ArgumentParser(prog='ablate')
    a.add_argument('model', help='checkpoint folder')
    a.add_argument('documents', help='made by python -m ablate.documents')
    a.add_argument('out')
    a.add_argument('--seekline', default='build/release/seekline')
    a.add_argument('--settings', nargs='+', help='names or groups; default: all')
    a.add_argument('--limit', type=int, help='documents at most, spread over the lengths')
    a.add_argument('--threads', type=int, default=0)
    a.add_argument('--no-plots', action='store_true')
    a = a.parse_args()
    os.makedirs(a.out, exist_ok=True)
    with open(a.documents, encoding='utf-8') as f:
        documents = json.load(f)['documents']
    if a.limit:
        documents = documents[::max(1, len(documents) // a.limit)][:a.limit]
    with tempfile.TemporaryDirectory() as scratch:
        engine = Engine(a.seekline, scratch, a.threads)
        wanted = chosen(a.settings)
        refused = [(s, m) for s in wanted if (m := engine.missing(s))]
        for s, missing in refused:
            print(f'{s.name}: not in this build (seekline logits has no {", ".join(missing)})')
        settings = [s for s in wanted if not engine.missing(s)]
        folder = {s.name: model.derive(a.model, s, scratch) for s in [REFERENCE, *settings]}
        results = {s.name: Results(a.out, s) for s in [REFERENCE, *settings]}
        run(engine, folder, documents, settings, results)
    rows = [report.row(s, documents, [results[s.name].found[d['id']] for d in documents]) for s in [REFERENCE, *settings]]
    with open(os.path.join(a.out, 'report.json'), 'w', encoding='utf-8') as f:
        json.dump({'rows': rows, 'refused': [{'name': s.name, 'missing': m} for s, m in refused]}, f, indent=1)
    text = report.table(rows, refused) + '\n' + report.distances(rows)
    with open(os.path.join(a.out, 'report.md'), 'w', encoding='utf-8') as f:
        f.write(text)
    print(text)
    if not a.no_plots:
        from . import plots
        plots.write(rows, a.out)


if __name__ == '__main__':
    main()
