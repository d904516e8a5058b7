"""Engram: hashed n-gram rows that are gated into the streams; and its layout (token map, primes, multipliers)."""
import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Regex, normalizers

from .streams import EPS_NORM


def compressed_map(tok):
    """Token id -> compressed id: tokens that normalise to the same text share one. -> (list, count)"""
    norm = normalizers.Sequence([normalizers.NFKC(), normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(),
                                 normalizers.Replace(Regex(r'[ \t\r\n]+'), ' ')])
    keys, out = {}, []
    for i in range(tok.get_vocab_size()):
        s = tok.decode([i], skip_special_tokens=False)
        if '\ufffd' in s:
            k = tok.id_to_token(i)
        else:
            n = norm.normalize_str(s)
            k = (n if n == ' ' else n.strip()) or s
        out.append(keys.setdefault(k, len(keys)))
    return out, len(keys)


def _primes_after(start, taken, count):
    out, x = [], start
    while len(out) < count:
        x += 1
        if x not in taken and x > 1 and all(x % d for d in range(2, int(x ** 0.5) + 1)):
            out.append(x)
            taken.add(x)
    return out


class Layout:
    def __init__(self, c, tok):
        ids, n = compressed_map(tok)
        if n != c['engram_compressed_vocab_size']:
            raise ValueError(f"engram_compressed_vocab_size is {c['engram_compressed_vocab_size']}, the tokenizer gives {n}")
        self.compressed = torch.tensor(ids)
        self.pad = ids[c['engram_pad_token_id']]
        self.layers = {}
        taken, sizes = set(), c['engram_max_ngram_size'] - 1
        for layer, rows in zip(c['engram_layer_ids'], c['engram_num_embeddings']):
            primes = [_primes_after(c['engram_vocab_size'] - 1, taken, c['engram_n_heads']) for _ in range(sizes)]
            flat = [x for p in primes for x in p]
            if sum(flat) != rows:
                raise ValueError(f'engram_num_embeddings of layer {layer} is {rows}, the primes give {sum(flat)}')
            bound = max(1, (np.iinfo(np.int64).max // n) // 2)
            mult = [int(x) * 2 + 1 for x in np.random.default_rng(10007 * layer).integers(0, bound, sizes + 1, dtype=np.int64)]
            self.layers[layer] = (torch.tensor(primes), torch.tensor(np.cumsum([0] + flat[:-1])), mult)

    def rows(self, ids, layer):
        """ids [B, T] -> table rows [B, T, sizes * heads]"""
        primes, offsets, mult = self.layers[layer]
        t = self.compressed[ids]
        out, r = [], t * mult[0]
        for i in range(1, len(mult)):
            back = torch.full_like(t, self.pad)
            back[:, i:] = t[:, :-i]
            r = r ^ (back * mult[i])
            out.append(r[..., None] % primes[i - 1])
        return torch.cat(out, -1) + offsets


def _unit(x):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS_NORM)


def gate_in(h, kv, q_weight, k_weight):
    """h [N, hc, D], kv [N, (hc + 1) D]: hc keys, then the value -> streams"""
    N, n, D = h.shape
    key, value = kv.float().split([n * D, D], -1)
    d = (_unit(h) * _unit(key.view(N, n, D)) * (q_weight * k_weight)).sum(-1) * D ** -0.5
    gate = torch.sigmoid(torch.copysign(d.abs().clamp_min(1e-6).sqrt(), d))
    return h + gate[..., None] * value[:, None]


def lookup(rows, table):
    """-> [N, columns * channels]"""
    return F.embedding(rows.flatten(0, 1), table).flatten(-2)
