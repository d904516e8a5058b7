"""A run is a function of its seed: stopped and resumed it goes on with the same bits."""
import os
import tempfile
import unittest

import torch

from nano import schedule
from nano.train import Run

TOKENS = 256        # a step: one document of 128 tokens in each process
SENTENCES = [f'The {n} children walked slowly along the road after lunch.' for n in range(40)]


class ResumeTest(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name
        with open(os.path.join(self.folder, 'real.txt'), 'w', encoding='utf-8') as f:
            f.write('\n'.join(SENTENCES) + '\n')

    def run_for(self, steps, save=False):
        run = Run(self.folder, compiled=False, tokens=TOKENS)
        try:
            for _ in range(steps):
                figures = run.step(schedule.STAGES[0], 0.1)
                run.state['step'] += 1
            if save:
                run.save()
            return {k: v.clone() for k, v in run.masters.items()}, figures
        finally:
            run.halves.close()

    def test_a_resumed_run_equals_one_that_was_not_stopped(self):
        straight, figures = self.run_for(3)
        self.run_for(2, save=True)
        resumed, again = self.run_for(1)
        self.assertEqual(figures['text'], again['text'])
        for name, value in straight.items():
            self.assertTrue(torch.equal(value, resumed[name]), name)

    def test_both_halves_shape_the_gradient(self):
        """The figures are means over two documents; the second one's gradient comes through shared memory."""
        run = Run(self.folder, compiled=False, tokens=TOKENS)
        try:
            alone, _, loads = run.halves.half.gradient(0, schedule.STAGES[0], 0)
            both, _, all_loads = run.halves.gradient(0, schedule.STAGES[0])
            other, _, _ = run.halves.half.gradient(0, schedule.STAGES[0], 1)
        finally:
            run.halves.close()
        self.assertEqual(int(all_loads.sum()), 2 * int(loads.sum()))
        for name in ('embed', 'layers.0.attn.wq_a', 'layers.4.attn.compressor.wkv'):
            want = (alone[name].float() + other[name].float()) / 2
            self.assertTrue(torch.equal(both[name], want), name)


if __name__ == '__main__':
    unittest.main()
