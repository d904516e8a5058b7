"""Attention over window, selected rows and sink as one compiled function (gathered.cc): bf16, forward and backward.

The definition is attention.attend_selected, which gathers the selected rows into a tensor and multiplies it query by query; most
of its time goes into moving rows and into products of four by 64. This reads the rows where they lie.
"""
import ctypes
import functools
import hashlib
import os
import subprocess
import tempfile

import torch

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'gathered.cc')
MOST = 1024         # rows a query may see
FLAGS = ('-O3', '-march=native', '-ffast-math', '-shared', '-fPIC')


@functools.cache
def library(heads, channels):
    """Compiled once for this source, processor and shape; kept among the temporary files."""
    command = ['g++', *FLAGS, f'-DHEADS={heads}', f'-DCHANNELS={channels}', f'-DMOST={MOST}', SOURCE]
    with open(SOURCE, 'rb') as source, open('/proc/cpuinfo', encoding='utf-8') as cpu:
        flags = next(line for line in cpu if line.startswith('flags'))
        key = hashlib.sha256(source.read() + ' '.join(command).encode() + flags.encode()).hexdigest()[:16]
    path = os.path.join(tempfile.gettempdir(), f'nano-{os.getuid()}-{key}.so')
    if not os.path.exists(path):
        subprocess.run([*command, '-o', f'{path}.{os.getpid()}'], check=True)
        os.replace(f'{path}.{os.getpid()}', path)
    return ctypes.CDLL(path)


def _call(function, sizes, tensors):
    n, tokens, window, k = sizes
    if window + k > MOST:
        raise ValueError(f'gathered attention sees {MOST} rows at most, not {window + k}')
    if any(not t.is_contiguous() for t in tensors):
        raise ValueError('gathered attention takes contiguous tensors')
    function(ctypes.c_int64(n), ctypes.c_int64(tokens), ctypes.c_int(window), ctypes.c_int(k), *(ctypes.c_void_p(t.data_ptr()) for t in tensors))


class Attend(torch.autograd.Function):
    """q [N, H, d] (scaled), rows [N, d], entries [E, d] bf16, picked [N, K] rows of `entries` (-1: none), sink [H] f32 -> [N, H, d];
    sequences of `tokens` tokens."""
    @staticmethod
    def forward(ctx, q, rows, entries, picked, sink, tokens, window):
        n, heads, channels = q.shape
        ctx.sizes = (n, tokens, window, picked.shape[1])
        q, rows, entries = (t.detach().bfloat16().contiguous() for t in (q, rows, entries))
        out, p = torch.empty_like(q), torch.empty(n, heads, window + picked.shape[1])
        _call(library(heads, channels).forward, ctx.sizes, (q, rows, entries, picked, sink.detach().contiguous(), out, p))
        ctx.save_for_backward(q, rows, entries, picked, p)
        return out

    @staticmethod
    def backward(ctx, grad):
        q, rows, entries, picked, p = ctx.saved_tensors
        of_q, of_rows, of_entries, of_sink = torch.empty_like(q), torch.zeros(rows.shape), torch.zeros(entries.shape), torch.zeros(q.shape[1])
        _call(library(*q.shape[1:]).backward, ctx.sizes, (q, rows, entries, picked, p, grad.bfloat16().contiguous(), of_q, of_rows, of_entries, of_sink))
        return of_q, of_rows.bfloat16(), of_entries.bfloat16(), None, of_sink, None, None
