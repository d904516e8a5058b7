"""The trainer's forward against logits of the official script (golden v41-tiny), and its two attention paths against each other."""
import json
import os
import unittest

import torch
from safetensors.torch import load_file

from nano import export
from nano.auxiliary import Probes
from nano.batches import loss_rows
from nano.model import Forward, Options, deployed, logits

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
GOLDEN = os.environ.get('NANO_GOLDEN', os.path.join(ROOT, 'tests/golden/data/models/v41-tiny'))


def padded(ids, w):
    return torch.tensor([ids + [2] * (-len(ids) % w)])


class ForwardTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        config, _, layout, _, cls.weights = export.read(GOLDEN)
        cls.c, cls.forward = config['text_config'], Forward(config, layout)
        cls.expected = load_file(os.path.join(GOLDEN, 'expected.safetensors'))
        with open(os.path.join(GOLDEN, 'cases.json'), encoding='utf-8') as f:
            cls.cases = json.load(f)['cases']

    def logits(self, ids, options):
        with torch.no_grad():
            hidden, aux = self.forward(self.weights, padded(ids, self.c['sliding_window']), options)
            return logits(hidden[:len(ids)], self.weights)

    def test_logits_equal_the_official_scripts_on_rows_without_an_edge(self):
        for mode, acts, least in (('exact', True, 200), ('plain', False, 160)):
            clean = bad = 0
            for case in self.cases:
                name = case['id'] if mode == 'exact' else case['id'] + '/plain'
                want = self.expected[f"{case['id']}/{mode}/logits"]
                noise = self.expected.get(f'{name}/noise_rows')
                got = self.logits(case['tokens'], deployed(self.c, exact=True, acts=acts))
                got = got[case['rows']] if 'rows' in case else got
                error = (got - want).square().mean(-1).sqrt()
                if noise is None:
                    noise = self.expected[f'{name}/noise'][1].expand(len(error))
                ok = noise < 1e-5
                clean += int(ok.sum())
                bad += int((error[ok] > (10 * noise[ok]).clamp_min(2e-5)).sum())
            self.assertGreater(clean, least, mode)
            self.assertLessEqual(bad, 0.02 * clean, mode)

    def test_a_selection_of_every_entry_equals_dense_attention(self):
        ids = next(c for c in self.cases if c['id'] == 't64')['tokens']
        self.forward.c = self.c | {'index_topk': 64, 'candidate_topk_blocks': 32}
        try:
            picked = self.logits(ids, Options(exact=True, select=True))
        finally:
            self.forward.c = self.c
        dense = self.logits(ids, Options(exact=True))
        self.assertLess((picked - dense).abs().max().item(), 2e-5)

    def test_probe_rows_see_what_attention_saw(self):
        """With every entry selected nothing is lost; the held mass is then the whole global mass."""
        ids = next(c for c in self.cases if c['id'] == 't64')['tokens']
        at = torch.tensor([[5, 20, 41, 63]])
        probes = Probes(at, torch.ones_like(at, dtype=torch.bool), None, torch.zeros_like(at))
        self.forward.c = self.c | {'index_topk': 64, 'candidate_topk_blocks': 32}
        try:
            with torch.no_grad():
                _, aux = self.forward(self.weights, torch.tensor([ids]), Options(exact=True, select=True, index_loss=True), probes)
        finally:
            self.forward.c = self.c
        self.assertEqual(aux.lost.item(), 0.0)
        self.assertAlmostEqual(aux.kept, aux.total, places=4)
        self.assertGreater(aux.index.item(), 0.0)

    def test_loss_rows_hold_every_answer_and_no_padding(self):
        kinds = torch.tensor([[0, 0, 1, 1, 2, 0, 3, -1, -1]])
        rows = loss_rows(kinds, 0.0, torch.Generator().manual_seed(0)).tolist()
        self.assertEqual(rows, [1, 2, 5])
        rows = loss_rows(kinds, 1.0, torch.Generator().manual_seed(0)).tolist()
        self.assertEqual(rows, [0, 1, 2, 3, 4, 5])


if __name__ == '__main__':
    unittest.main()
