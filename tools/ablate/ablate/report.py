"""Figures of all documents -> one row a setting, as JSON and as Markdown tables."""
import numpy as np

from .statistics import bootstrap, wilson

BINS = {50: (33, 80), 200: (140, 270), 500: (380, 640), 1000: (800, 1250), 2000: (1650, 2400)}


def row(setting, documents, figures, reference):
    """figures, reference: one dict of measure.document for each document, in order. Changes are paired with the reference, document by document."""
    col = lambda k: np.array([f[k] for f in figures], float)
    asked = lambda fs: [[r for r, a in zip(f['right'], d['answers']) if not a['again']] for f, d in zip(fs, documents)]
    right, before, questions = (np.array(x, float) for x in ([sum(x) for x in asked(figures)], [sum(x) for x in asked(reference)], [len(x) for x in asked(figures)]))
    nll_before = np.array([f['nll'] for f in reference])
    out = dict(name=setting.name, group=setting.group, about=setting.about, documents=len(figures), questions=int(questions.sum()), rows=int(col('rows').sum()),
               kl=bootstrap(col('kl'), col('rows')), kl_first=bootstrap(col('kl_first'), np.ones(len(figures))), agree=bootstrap(col('agree'), col('rows')),
               perplexity=bootstrap(col('nll'), col('rows'), np.exp), perplexity_times=bootstrap(col('nll') - nll_before, col('rows'), np.exp),
               accuracy=bootstrap(right, questions), accuracy_change=bootstrap(right - before, questions),
               first=wilson(sum(f['right'][0] for f in figures), len(figures)), same=int(col('same').sum()))
    if 'body_nll' in figures[0]:
        out['body_perplexity'] = bootstrap(col('body_nll'), col('body_rows'), np.exp)
    if 'prompt' in figures[0]:
        out['work'] = {k: float(col(k).sum() / col('prompt').sum()) for k in ('encoder', 'decoder')}
    out['distance'] = {}
    for b, (low, high) in BINS.items():
        hits = [r for f, d in zip(figures, documents) for r, a in zip(f['right'], d['answers']) if not a['again'] and low <= a['distance'] <= high]
        if hits:
            out['distance'][b] = dict(zip(('share', 'low', 'high'), wilson(sum(hits), len(hits))), count=len(hits))
    return out


def number(x, digits):
    """Fixed digits; a value too small for them as a power of ten."""
    return f'{x:.1e}' if 0 < abs(x) < 0.5 * 10 ** -digits else f'{x:.{digits}f}'


def cell(x, digits, times=1.0, less=0.0):
    value, low, high = ((v - less) * times for v in x)
    return number(value, digits) if low == value == high else f'{number(value, digits)} ({number(low, digits)} to {number(high, digits)})'


def lines(head, rows):
    return '\n'.join('| ' + ' | '.join(r) + ' |' for r in [head, ['---'] * len(head), *rows]) + '\n'


def table(rows, refused):
    head = ['setting', 'what changes', 'KL (nats)', 'KL, first token', 'top-1 agreement', 'perplexity, %', 'accuracy', 'change of accuracy']
    body = [[r['name'], r['about'], cell(r['kl'], 4), cell(r['kl_first'], 4), cell(r['agree'], 3), cell(r['perplexity_times'], 2, 100, 1),
             cell(r['accuracy'], 3), cell(r['accuracy_change'], 3)] for r in rows]
    body += [[s.name, s.about, f'not in this build: `seekline logits` has no {", ".join(missing)}', *[''] * (len(head) - 3)] for s, missing in refused]
    return lines(head, body)


def distances(rows):
    bins = [b for b in BINS if any(b in r['distance'] for r in rows)]
    share = lambda x: f"{x['share']:.3f} ({x['low']:.3f} to {x['high']:.3f}) of {x['count']}" if x else ''
    return lines(['setting', *(f'{b} tokens' for b in bins)], [[r['name'], *(share(r['distance'].get(b)) for b in bins)] for r in rows])


def prompts(rows):
    """What the settings that read a prompt in parts took, and how often not a bit came out different."""
    return lines(['setting', 'layer evaluations a prompt token: encoder', 'decoder', 'documents with the same bits'],
                 [[r['name'], f"{r['work']['encoder']:.2f}", f"{r['work']['decoder']:.2f}", f"{r['same']} of {r['documents']}"] for r in rows if 'work' in r])
