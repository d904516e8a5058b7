"""What one setting does to one document, beside the exact run of the same tokens."""
import numpy as np


def log_softmax(z):
    z = z.astype(np.float64)
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def document(d, reference, other, evaluations=None):
    """d as documents.py makes it -> figures. Logits begin at any token up to the prompt's last and end at the document's. Rows counted: those
    that predict a token behind the prompt (answers, further questions); for `body` those inside the prompt, where the logits have them."""
    count = len(d['tokens']) - d['prompt']
    target = np.array(d['tokens'][d['prompt']:])
    theirs, mine = (z[-count - 1:-1] for z in (reference, other))
    p, q = log_softmax(theirs), log_softmax(mine)
    kl = (np.exp(p) * (p - q)).sum(-1)
    right = mine.argmax(-1) == target
    out = dict(id=d['id'], rows=count, kl=float(kl.sum()), kl_first=float(kl[0]), agree=int((p.argmax(-1) == q.argmax(-1)).sum()),
               same=bool(np.array_equal(theirs, mine)), nll=float(-q[np.arange(count), target].sum()),
               right=[bool(right[a['first'] - d['prompt']:a['end'] - d['prompt']].all()) for a in d['answers']])
    if len(other) == len(d['tokens']):
        body = log_softmax(other[:d['prompt'] - 1])
        out.update(body_rows=len(body), body_nll=float(-body[np.arange(len(body)), d['tokens'][1:d['prompt']]].sum()))
    if evaluations is not None:
        out.update(prompt=d['prompt'], encoder=int(evaluations[0]), decoder=int(evaluations[1]))
    return out
