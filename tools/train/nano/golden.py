"""Logits of the trainer's own forward for the engine's tests, where the official script is not at hand:
   python -m nano.golden MODEL REAL_TXT OUT      writes OUT/cases.json and OUT/expected.safetensors, in the form of the golden models

Held-out documents, one prefill each, every quantizer on (`exact`), f32. `noise_rows`: how far a row moves when the embeddings are moved by
2^-23 of themselves, worst of four; a row at a rounding, expert or selection edge moves by more than 1e-4, the others by less than 1e-5.
"""
import json
import os
import sys

import torch
from safetensors.torch import save_file

from . import export, text
from .documents import Writer
from .model import Forward, deployed, logits

SEED, LENGTHS, ROWS, DRAWS = 7_000_000_000, (48, 96, 160, 288), 8, 4


def main():
    model, real, out = sys.argv[1:4]
    config, tok, layout, _, weights = export.read(model)
    c, forward, writer = config['text_config'], Forward(config, layout), Writer(tok, text.load(real)[1])

    @torch.no_grad()
    def run(ids, weights, rows):
        padded = torch.tensor([ids + [2] * (-len(ids) % c['sliding_window'])])
        return logits(forward(weights, padded, deployed(c, exact=True))[0][rows], weights)

    g, cases, expected = torch.Generator().manual_seed(1), [], {}
    for i, n in enumerate(LENGTHS):
        ids = writer.encode(writer.lookup(SEED + i, 4 * n + 200, 2)[0])[0][:n]
        rows = [round(k * (n - 1) / (ROWS - 1)) for k in range(ROWS)]
        want = run(ids, weights, rows)
        moved = [weights | {'embed': weights['embed'] * (1 + 2.0 ** -23 * torch.randint(-1, 2, weights['embed'].shape, generator=g))} for _ in range(DRAWS)]
        noise = torch.stack([(run(ids, w, rows) - want).square().mean(-1).sqrt() for w in moved]).amax(0)
        cases.append(dict(id=f't{n}', tokens=ids, rows=rows, note=f'{n} tokens of a held-out document'))
        expected |= {f't{n}/exact/logits': want, f't{n}/noise_rows': noise}
        print(f't{n}', [f'{x:.0e}' for x in noise.tolist()])
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, 'cases.json'), 'w', encoding='utf-8') as f:
        json.dump({'model': os.path.basename(os.path.normpath(model)), 'cases': cases}, f)
    save_file(expected, os.path.join(out, 'expected.safetensors'))


if __name__ == '__main__':
    main()
