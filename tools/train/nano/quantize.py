"""The block quantizers of V4.1, value in, decoded value out.

Everything is pointwise float and integer work on whole tensors, so torch.compile fuses it.
Rounding to e4m3 and e2m1 divides by the step of the value's binade (a power of two, so the
division is exact) and rounds half to even, which is what the formats ask for.
"""
import torch


def straight_through(x, quantized):
    """The quantized value, with the gradient of x. Exactly `quantized` in the forward pass."""
    return quantized.detach() + (x - x.detach())


def power_of_two_ceil(x):
    """2^ceil(log2 x) for normal f32 x > 0, by its bits."""
    bits = x.view(torch.int32)
    exponent = (bits >> 23) + ((bits & 0x7FFFFF) != 0).to(torch.int32)
    return (exponent << 23).view(torch.float32)


def _round_to_binade(x, mantissa_bits, least_exponent):
    exponent = ((x.abs().view(torch.int32) >> 23)).clamp_min(least_exponent + 127)
    step = ((exponent - mantissa_bits) << 23).view(torch.float32)
    return torch.round(x / step) * step


def round_e4m3(x):
    return _round_to_binade(x.clamp(-448, 448), 3, -6)


def round_e2m1(x):
    return _round_to_binade(x.clamp(-6, 6), 1, 0)


def fp8_block32(x):
    """Activations and window rows: e4m3 with a power-of-two scale per 32 channels."""
    b = x.float().unflatten(-1, (-1, 32))
    s = power_of_two_ceil(b.abs().amax(-1, keepdim=True).clamp_min(1e-4) * (1 / 448))
    return (round_e4m3(b / s) * s).flatten(-2)


def fp4_block32_parts(x):
    """-> (e2m1 values [.., n, 32], power-of-two scales [.., n, 1])"""
    b = x.float().unflatten(-1, (-1, 32))
    s = power_of_two_ceil(b.abs().amax(-1, keepdim=True).clamp_min(6 * 2.0**-126) * (1 / 6))
    return round_e2m1(b / s), s


def fp4_block32(x):
    """Index keys and queries, expert weights: e2m1 with a power-of-two scale per 32 channels."""
    v, s = fp4_block32_parts(x)
    return (v * s).flatten(-2)


def fp4_block16(x):
    """Main rows: e2m1 with an e4m3 scale per 16 channels."""
    b = x.float().unflatten(-1, (-1, 16))
    s = round_e4m3(b.abs().amax(-1, keepdim=True).clamp_min(6 * 2.0**-9) / 6)
    return (round_e2m1(b / s) * s).flatten(-2)


def fp8_tile32_parts(w):
    """Dense weights: e4m3 with a power-of-two scale per 32 x 32 tile -> (values [o/32, 32, i/32, 32], scales [o/32, 1, i/32, 1])"""
    o, i = w.shape[-2:]
    b = w.float().unflatten(-1, (i // 32, 32)).unflatten(-3, (o // 32, 32))
    s = power_of_two_ceil(b.abs().amax((-3, -1), keepdim=True).clamp_min(1e-10) * (1 / 448))
    return round_e4m3(b / s), s


def fp8_tile32(w):
    v, s = fp8_tile32_parts(w)
    return (v * s).reshape(w.shape)


def fp8_row32_parts(w):
    """Engram tables: e4m3 with a power-of-two scale per 32 channels of a row."""
    b = w.float().unflatten(-1, (-1, 32))
    s = power_of_two_ceil(b.abs().amax(-1, keepdim=True).clamp_min(1e-10) * (1 / 448))
    return round_e4m3(b / s), s


def fp8_row32(w):
    v, s = fp8_row32_parts(w)
    return (v * s).flatten(-2)


def bf16(w):
    return w.bfloat16().float()


# What each kind of weight becomes in the released file.
WEIGHT = {'fp8': fp8_tile32, 'fp4': fp4_block32, 'table': fp8_row32, 'bf16': bf16, 'norm': bf16, 'router': bf16, 'f32': lambda w: w}
