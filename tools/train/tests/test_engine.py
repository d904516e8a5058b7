"""The trainer's forward and the engine agree on a model of the trained shape, every quantizer on. SEEKLINE names the program."""
import json
import os
import subprocess
import tempfile
import unittest

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from nano import export, weights as wt
from nano.documents import Writer
from nano.engram import Layout
from nano.model import Forward, Options, deployed, logits
from nano.train import HERE, read_config

SEEKLINE = os.environ.get('SEEKLINE', os.path.join(HERE, '../../build/release/seekline'))
MODEL = os.environ.get('NANO_MODEL')        # an exported folder instead of start values


@unittest.skipUnless(os.access(SEEKLINE, os.X_OK), f'{SEEKLINE} is not built')
class EngineTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = scratch.name
        self.folder = MODEL or self.start_values()
        self.config, tok, self.layout, _, self.weights = export.read(self.folder)
        writer = Writer(tok, [])
        self.document = lambda seed, chars: writer.encode(writer.lookup(9_000_000_000 + seed, chars, 2, facts=max(4, chars // 60))[0])[0]

    def start_values(self):
        config, tok_file = read_config(), os.path.join(HERE, 'tokenizer.json')
        layout = Layout(config['text_config'], Tokenizer.from_file(tok_file))
        specs = wt.specs(config, layout.compressed, seed=7)
        folder = os.path.join(self.scratch, 'model')
        export.write(wt.initial(specs), specs, config, tok_file, folder)
        return folder

    def errors(self, cases, options, *flags):
        """-> rms distance of engine and trainer, one list of rows a case"""
        path, out = os.path.join(self.scratch, 'cases.json'), os.path.join(self.scratch, 'out.safetensors')
        with open(path, 'w', encoding='utf-8') as f:
            json.dump({'cases': [{'id': str(i), 'tokens': t} for i, t in enumerate(cases)]}, f)
        subprocess.run([SEEKLINE, 'logits', '--model', self.folder, '--cases', path, '--out', out, '--arithmetic', 'f32', *flags], check=True, stderr=subprocess.DEVNULL)
        found = load_file(out)
        forward, window = Forward(self.config, self.layout), self.config['text_config']['sliding_window']
        errors = []
        for i, ids in enumerate(cases):
            with torch.no_grad():
                hidden, _ = forward(self.weights, torch.tensor([ids + [2] * (-len(ids) % window)]), options)
                errors.append((logits(hidden[:len(ids)], self.weights) - found[f'{i}/logits']).square().mean(-1).sqrt())
        return errors

    def test_without_quantizers_of_activations_and_rows_nearly_every_row_is_equal(self):
        """Left are the edges of the selection and of the experts. Long enough for top-k and pool."""
        c = self.config['text_config']
        cases = [self.document(seed, 1500) for seed in (1, 2)]
        e = torch.cat(self.errors(cases, Options(exact=True, weights=True, select=True, sinkhorn=c['hc_sinkhorn_iters']), '--activations', 'plain', '--rows', 'f32'))
        self.assertGreater(len(e), 500)
        self.assertGreater((e < 1e-5).float().mean().item(), 0.9)
        self.assertLess(e.median().item(), 1e-6)

    def test_with_every_quantizer_rows_are_equal_until_a_value_falls_on_the_other_side_of_an_edge(self):
        """Such a value moves its row, and those that attend to it, by far more than 1e-4: rounding (below 1e-5) and edges leave a gap between them."""
        e = torch.cat(self.errors([self.document(10 + seed, 280)[:64] for seed in range(12)], deployed(self.config['text_config'], exact=True)))
        equal, edge = e < 1e-5, e > 1e-4
        self.assertGreater(equal.float().mean().item(), 0.5)
        self.assertLess(e[equal].square().mean().sqrt().item(), 2e-6)
        self.assertLess((~equal & ~edge).float().mean().item(), 0.03)


if __name__ == '__main__':
    unittest.main()
