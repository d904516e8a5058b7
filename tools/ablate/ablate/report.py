"""Figures of all documents -> one row a setting, as JSON and as a Markdown table."""
import numpy as np

from .statistics import bootstrap, wilson

BINS = {50: (33, 80), 200: (140, 270), 500: (380, 640), 1000: (800, 1250), 2000: (1650, 2400)}


def row(setting, documents, figures):
    """figures: one dict of measure.document for each document, in order"""
    col = lambda k: [f[k] for f in figures]
    asked = [[r for r, a in zip(f['right'], d['answers']) if not a['again']] for f, d in zip(figures, documents)]
    out = dict(name=setting.name, group=setting.group, about=setting.about, documents=len(figures),
               kl=bootstrap(col('kl'), col('rows')), kl_first=bootstrap(col('kl_first'), np.ones(len(figures))), agree=bootstrap(col('agree'), col('rows')),
               perplexity=bootstrap(col('nll'), col('rows'), np.exp), same=sum(col('same')),
               accuracy=bootstrap([sum(x) for x in asked], [len(x) for x in asked]), first=wilson(sum(f['right'][0] for f in figures), len(figures)))
    if 'body_nll' in figures[0]:
        out['body_perplexity'] = bootstrap(col('body_nll'), col('body_rows'), np.exp)
    if 'prompt' in figures[0]:
        out['work'] = {k: sum(col(k)) / sum(col('prompt')) for k in ('encoder', 'decoder')}
    out['distance'] = {}
    for b, (low, high) in BINS.items():
        hits = [r for f, d in zip(figures, documents) for r, a in zip(f['right'], d['answers']) if not a['again'] and low <= a['distance'] <= high]
        if hits:
            out['distance'][b] = dict(zip(('share', 'low', 'high'), wilson(sum(hits), len(hits))), count=len(hits))
    return out


def cell(x, digits):
    value, low, high = x
    return f'{value:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})'


def table(rows, refused):
    head = ['setting', 'what changes', 'KL (nats)', 'KL, first token', 'top-1 agreement', 'perplexity', 'perplexity of the prompt', 'accuracy', 'first answer']
    lines = ['| ' + ' | '.join(head) + ' |', '| ' + ' | '.join('---' for _ in head) + ' |']
    for r in rows:
        lines.append('| ' + ' | '.join([r['name'], r['about'], cell(r['kl'], 4), cell(r['kl_first'], 4), cell(r['agree'], 4), cell(r['perplexity'], 3),
                                         cell(r['body_perplexity'], 2) if 'body_perplexity' in r else '', cell(r['accuracy'], 3), cell(r['first'], 3)]) + ' |')
    for s, missing in refused:
        lines.append(f'| {s.name} | {s.about} | not in this build: `seekline logits` has no {", ".join(missing)} |' + ' |' * (len(head) - 3))
    return '\n'.join(lines) + '\n'


def distances(rows):
    bins = [b for b in BINS if any(b in r['distance'] for r in rows)]
    lines = ['| setting | ' + ' | '.join(f'{b} tokens' for b in bins) + ' |', '| ' + ' | '.join('---' for _ in range(len(bins) + 1)) + ' |']
    for r in rows:
        cells = [f"{x['share']:.3f} ({x['low']:.3f}–{x['high']:.3f}) of {x['count']}" if (x := r['distance'].get(b)) else '' for b in bins]
        lines.append('| ' + ' | '.join([r['name'], *cells]) + ' |')
    return '\n'.join(lines) + '\n'


def prompts(rows):
    """What the settings that read a prompt in parts took, and how often not a bit came out different."""
    lines = ['| setting | layer evaluations a prompt token: encoder | decoder | documents with the same bits |', '| --- | --- | --- | --- |']
    for r in rows:
        if 'work' in r:
            lines.append(f"| {r['name']} | {r['work']['encoder']:.2f} | {r['work']['decoder']:.2f} | {r['same']} of {r['documents']} |")
    return '\n'.join(lines) + '\n'
