"""What is exported is what was trained: weights read back equal the working copies of the last step."""
import os
import tempfile
import unittest

import torch
from tokenizers import Tokenizer

from nano import export, weights as wt
from nano.engram import Layout
from nano.model import Forward, deployed, logits
from nano.train import HERE, read_config


class ExportTest(unittest.TestCase):
    def test_weights_and_logits_read_back_are_equal(self):
        config, tok_file = read_config(), os.path.join(HERE, 'tokenizer.json')
        layout = Layout(config['text_config'], Tokenizer.from_file(tok_file))
        specs = wt.specs(config, layout.compressed, seed=7)
        masters = wt.initial(specs)
        for l in range(config['text_config']['num_hidden_layers']):
            masters[f'layers.{l}.ffn.gate.bias'] += torch.linspace(-0.1, 0.1, config['text_config']['n_routed_experts'])
        work = wt.working(masters, specs, True, torch.float32)
        with tempfile.TemporaryDirectory() as folder:
            export.write(masters, specs, config, tok_file, folder)
            self.assertLess(os.path.getsize(os.path.join(folder, 'model.safetensors')), 20_000_000)
            config, _, layout, _, back = export.read(folder)
        self.assertEqual(sorted(back), sorted(work))
        for name in work:
            self.assertTrue(torch.equal(back[name], work[name]), name)
        forward, options = Forward(config, layout), deployed(config['text_config'], exact=True)
        ids = torch.randint(3, 4000, (1, 160), generator=torch.Generator().manual_seed(1))
        with torch.no_grad():
            a, b = (logits(forward(w, ids, options)[0], w) for w in (work, back))
        self.assertTrue(torch.equal(a, b))
        self.assertTrue(torch.isfinite(a).all())


if __name__ == '__main__':
    unittest.main()
