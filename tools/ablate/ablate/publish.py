"""Puts the figures of a run into a document:  python -m ablate.publish OUT MODEL DOCUMENT.md

OUT is a folder that `python -m ablate` filled, MODEL the checkpoint it measured. What stands between the two marks in the document is
replaced; the plots go into a folder beside it that has its name.
"""
import json
import os
import shutil
import sys

from . import report
from .settings import Setting

BEGIN, END = '<!-- ablation: begin -->', '<!-- ablation: end -->'
PLOTS = {'kl.svg': 'KL to the reference by setting', 'accuracy.svg': 'Look-up accuracy by setting', 'distance.svg': 'Look-up accuracy by distance'}


def read(file):
    """report.json; distances, keys of JSON objects there, are numbers again."""
    found = json.load(file)
    for r in found['rows']:
        r['distance'] = {int(k): v for k, v in r['distance'].items()}
    return found


def words(found, model, pictures):
    """-> the Markdown between the marks"""
    rows, lengths = found['rows'], found['lengths']
    first = rows[0]
    documents = ', '.join(f'{n} of up to {t} tokens' for t, n in lengths.items())
    size = sum(os.path.getsize(os.path.join(model, f)) for f in os.listdir(model) if f.endswith('.safetensors'))
    cell = report.cell
    text = [f"Measured on `models/{os.path.basename(os.path.normpath(model))}` ({size / 1e6:.1f} MB) with {first['documents']} documents ({documents}), {first['questions']} "
            f"questions, {first['rows']} tokens behind the prompts; products in {'f32' if found['arithmetic'] == 'f32' else 'bf16 (`fast`)'}. The reference itself: perplexity behind the "
            f"prompt {cell(first['perplexity'], 3)}, inside the prompt {cell(first['body_perplexity'], 2)}, look-up accuracy {cell(first['accuracy'], 3)}.\n"]
    refused = [(Setting(r['name'], '', ''), r['missing']) for r in found['refused']]
    text += [report.table(rows[1:], refused), *(f'![{about}]({pictures}/{name})\n' for name, about in PLOTS.items()),
             'Accuracy by the distance between a fact and its answer:\n', report.distances(rows), 'Settings that read a prompt in parts:\n', report.prompts(rows)]
    return '\n'.join(text)


def insert(document, text):
    before, rest = document.split(BEGIN)
    return before + BEGIN + '\n' + text + END + rest.split(END)[1]


def main():
    out, model, path = sys.argv[1:4]
    with open(os.path.join(out, 'report.json'), encoding='utf-8') as f:
        found = read(f)
    pictures = os.path.splitext(path)[0]
    os.makedirs(pictures, exist_ok=True)
    for name in PLOTS:
        shutil.copy(os.path.join(out, name), pictures)
    with open(path, encoding='utf-8') as f:
        document = f.read()
    with open(path, 'w', encoding='utf-8') as f:
        f.write(insert(document, words(found, model, os.path.basename(pictures))))


if __name__ == '__main__':
    main()
