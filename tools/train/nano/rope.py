"""Rotary position encoding: adjacent pairs of the last channels; f32 tables as the release computes them."""
import math

import torch


def table(tokens, channels, theta, scaling=None):
    """-> cos, sin [tokens, channels / 2]"""
    f = torch.tensor([1.0 / float(torch.tensor(theta ** (2 * i / channels), dtype=torch.float32)) for i in range(channels // 2)], dtype=torch.float32)
    original = scaling['original_max_position_embeddings'] if scaling else 0
    if original:
        at = lambda turns: channels * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))
        low, high = max(math.floor(at(scaling['beta_fast'])), 0), min(math.ceil(at(scaling['beta_slow'])), channels - 1)
        ramp = ((torch.arange(channels // 2).float() - low) / max(high - low, 1e-3)).clamp(0, 1)
        f = f / scaling['factor'] * ramp + f * (1 - ramp)
    angle = torch.arange(tokens).float()[:, None] * f[None]
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    """x [N, (H,) d], cos and sin [N, pairs]; -sin rotates back."""
    x = x.float()
    if x.ndim == 3:
        cos, sin = cos[:, None], sin[:, None]
    r = 2 * cos.shape[-1]
    tail = x[..., -r:].unflatten(-1, (-1, 2))
    a, b = tail[..., 0], tail[..., 1]
    return torch.cat([x[..., :-r], torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)], -1)
