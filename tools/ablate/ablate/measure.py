"""What one setting does to one document, beside the exact run of the same tokens."""
import numpy as np


def log_softmax(z):
    z = z.astype(np.float64)
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def document(d, exact, other):
    """d as documents.py makes it, exact and other [tokens, vocabulary] logits -> figures. Rows counted: those that predict a token
    behind the prompt (answers, further questions), and for `body` those inside the prompt."""
    at = slice(d['prompt'] - 1, len(d['tokens']) - 1)
    target = np.array(d['tokens'][1:])
    p, q = log_softmax(exact[at]), log_softmax(other[at])
    kl = (np.exp(p) * (p - q)).sum(-1)
    body = log_softmax(other[:d['prompt'] - 1])
    best = other.argmax(-1)
    return dict(id=d['id'], rows=len(kl), kl=float(kl.sum()), kl_first=float(kl[0]), agree=int((p.argmax(-1) == q.argmax(-1)).sum()),
                nll=float(-q[np.arange(len(q)), target[at]].sum()),
                body_rows=len(body), body_nll=float(-body[np.arange(len(body)), target[:len(body)]].sum()),
                right=[bool((best[a['first'] - 1:a['end'] - 1] == target[a['first'] - 1:a['end'] - 1]).all()) for a in d['answers']])
