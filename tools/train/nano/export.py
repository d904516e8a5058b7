"""Writes a model in the official V4.1 checkpoint form and reads that form back:  python -m nano.export STATE_FOLDER OUT_FOLDER [--last]

What is written is the moving average of the masters; with --last, the masters of the last step."""
import json
import os
import shutil
import sys

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from . import quantize as q, weights as wt
from .engram import Layout

PLAIN = {'bf16': torch.bfloat16, 'norm': torch.bfloat16, 'router': torch.bfloat16, 'f32': torch.float32}
E2M1 = torch.tensor([0., .5, 1., 1.5, 2., 3., 4., 6., -0., -.5, -1., -1.5, -2., -3., -4., -6.])


def official(name, kind):
    """-> the official name; quantized ones get .weight and .scale behind it"""
    tail = name.split('.', 2)[2] if name.startswith('layers.') else name
    bare = kind == 'f32' or tail in ('engram.q_weight', 'engram.k_weight')
    return name if bare or kind in ('fp8', 'fp4', 'table') else name + '.weight'


def e8m0(scale):
    return (torch.frexp(scale).exponent - 1 + 127).to(torch.uint8).view(torch.float8_e8m0fnu)


def from_e8m0(x):
    return torch.ldexp(torch.ones(x.shape), x.view(torch.uint8).int() - 127)


def write_fp8(out, name, w):
    v, s = q.fp8_tile32_parts(w)
    out[name + '.weight'] = v.reshape(w.shape).to(torch.float8_e4m3fn)
    out[name + '.scale'] = e8m0(s.squeeze(-1).squeeze(-2)).contiguous()


def read_fp8(t, name):
    return t.pop(name + '.weight').float() * from_e8m0(t.pop(name + '.scale')).repeat_interleave(32, 0).repeat_interleave(32, 1)


def write_fp4(out, name, w):
    v, s = q.fp4_block32_parts(w)
    v = v.flatten(-2)
    code = torch.bucketize(v.abs(), torch.tensor([.25, .75, 1.25, 1.75, 2.5, 3.5, 5.])) | (torch.signbit(v).long() << 3)
    out[name + '.weight'] = (code[:, 0::2] | (code[:, 1::2] << 4)).to(torch.uint8).view(torch.int8)
    out[name + '.scale'] = e8m0(s.squeeze(-1))


def read_fp4(t, name):
    b = t.pop(name + '.weight').view(torch.uint8).long()
    v = torch.stack([E2M1[b & 15], E2M1[b >> 4]], -1).flatten(-2)
    return v * from_e8m0(t.pop(name + '.scale')).repeat_interleave(32, 1)


def write_table(out, name, w):
    v, s = q.fp8_row32_parts(w)
    out[name + '.weight'] = v.flatten(-2).to(torch.float8_e4m3fn)
    out[name + '.scale'] = e8m0(s.squeeze(-1))


def read_table(t, name):
    return t.pop(name + '.weight').float() * from_e8m0(t.pop(name + '.scale')).repeat_interleave(32, 1)


WRITE = {'fp8': write_fp8, 'fp4': write_fp4, 'table': write_table}
READ = {'fp8': read_fp8, 'fp4': read_fp4, 'table': read_table}


def experts(name, shape):
    """Stacked experts -> [(official name, index into the master)]"""
    base, which = name.rsplit('.', 1)
    ids = [(f'{base}.{e}', (e,)) for e in range(shape[0])] if base.endswith('.experts') else [(base, ())]
    half = shape[-2] // 2
    for b, i in ids:
        if which == 'w2':
            yield f'{b}.w2', i
        else:
            yield f'{b}.w1', (*i, slice(0, half))
            yield f'{b}.w3', (*i, slice(half, None))


def tensors(masters, specs):
    """-> {official name: tensor}"""
    out = {}
    for name, s in specs.items():
        w = masters[name].detach()
        if 'experts.' in name:
            for o, i in experts(name, s.shape):
                WRITE[s.kind](out, o, w[i].contiguous())
        elif s.kind in WRITE:
            WRITE[s.kind](out, official(name, s.kind), w)
        else:
            out[official(name, s.kind)] = w.to(PLAIN[s.kind]).clone()
        if name.endswith('gate.bias'):
            out[name + '_vl'] = w.clone()
    return out


def read(folder):
    """Official folder -> config, tokenizer, layout, specs, f32 weights (decoded)"""
    with open(os.path.join(folder, 'config.json'), encoding='utf-8') as f:
        config = json.load(f)
    tok = Tokenizer.from_file(os.path.join(folder, 'tokenizer.json'))
    layout = Layout(config['text_config'], tok)
    specs = wt.specs(config, layout.compressed)
    t = load_file(os.path.join(folder, 'model.safetensors'))
    out = {}
    for name, s in specs.items():
        if 'experts.' in name:
            out[name] = torch.empty(s.shape)
            for o, i in experts(name, s.shape):
                out[name][i] = READ[s.kind](t, o)
        else:
            o = official(name, s.kind)
            out[name] = READ[s.kind](t, o) if s.kind in READ else t.pop(o).float()
        if name.endswith('gate.bias'):
            t.pop(name + '_vl')
    if t:
        raise ValueError(f'unknown tensors in {folder}: {sorted(t)[:5]}')
    return config, tok, layout, specs, out


def trained(folder):
    """-> {tokens, stage}: how far the exported model of a folder had come (nano.train --from)"""
    with safe_open(os.path.join(folder, 'model.safetensors'), 'pt') as f:
        notes = f.metadata() or {}
    if not {'tokens', 'stage'} <= notes.keys():
        raise ValueError(f'{folder}: model.safetensors does not say how far it was trained')
    return {k: int(notes[k]) for k in ('tokens', 'stage')}


def write(masters, specs, config, tokenizer_file, folder, state=None):
    """`state`: {tokens, stage} the training has reached, kept in the file's metadata"""
    os.makedirs(folder, exist_ok=True)
    notes = {'format': 'pt'} | {k: str(state[k]) for k in ('tokens', 'stage') if state}
    save_file({k: v.contiguous() for k, v in tensors(masters, specs).items()}, os.path.join(folder, 'model.safetensors'), metadata=notes)
    with open(os.path.join(folder, 'config.json'), 'w', encoding='utf-8') as f:
        json.dump(config, f, indent=1)
    shutil.copy(tokenizer_file, os.path.join(folder, 'tokenizer.json'))


def main():
    from .train import HERE, read_config
    state, folder = sys.argv[1:3]
    part = 'masters' if '--last' in sys.argv[3:] else 'average'
    config, tok_file = read_config(), os.path.join(HERE, 'tokenizer.json')
    specs = wt.specs(config, Layout(config['text_config'], Tokenizer.from_file(tok_file)).compressed)
    z = torch.load(os.path.join(state, 'checkpoint.pt'))
    write(z[part], specs, config, tok_file, folder, z['state'])
    print(z['state'], os.path.getsize(os.path.join(folder, 'model.safetensors')), 'bytes')


if __name__ == '__main__':
    main()
