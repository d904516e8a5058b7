"""Means with 95 % intervals. The unit that is drawn is the document: tokens and questions of one document are not independent."""
import numpy as np

DRAWS = 2000
Z = 1.959964


def bootstrap(numerators, denominators, function=lambda x: x):
    """-> (function of the ratio of sums, low, high), by drawing documents with replacement"""
    n, d = np.asarray(numerators, float), np.asarray(denominators, float)
    pick = np.random.default_rng(1).integers(0, len(n), (DRAWS, len(n)))
    draws = function(n[pick].sum(1) / np.maximum(d[pick].sum(1), 1e-300))
    return float(function(n.sum() / max(d.sum(), 1e-300))), float(np.quantile(draws, 0.025)), float(np.quantile(draws, 0.975))


def wilson(hits, count):
    """-> (share, low, high) of independent trials"""
    if count == 0:
        return float('nan'), 0.0, 1.0
    p, z = hits / count, Z
    middle = (p + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * ((p * (1 - p) + z * z / (4 * count)) / count) ** 0.5
    return p, min(p, max(0.0, middle - half)), max(p, min(1.0, middle + half))      # rounding must not push p outside
