"""A run is a function of its seed: stopped and resumed it goes on with the same bits."""
import os
import tempfile
import unittest

import torch
from tokenizers import Tokenizer

from nano import export, schedule, weights as wt
from nano.engram import Layout
from nano.train import HERE, Run, read_config

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
            return {k: v.clone() for k, v in [*run.masters.items(), *((f'average of {k}', v) for k, v in run.average.items())]}, figures
        finally:
            run.halves.close()

    def test_a_resumed_run_equals_one_that_was_not_stopped(self):
        straight, figures = self.run_for(3)
        self.run_for(2, save=True)
        resumed, again = self.run_for(1)
        self.assertEqual(figures['text'], again['text'])
        for name, value in straight.items():
            self.assertTrue(torch.equal(value, resumed[name]), name)

    def test_a_run_goes_on_from_an_exported_model(self):
        config, tok_file = read_config(), os.path.join(HERE, 'tokenizer.json')
        specs = wt.specs(config, Layout(config['text_config'], Tokenizer.from_file(tok_file)).compressed, seed=7)
        masters, model = wt.initial(specs), os.path.join(self.folder, 'model')
        export.write(masters, specs, config, tok_file, model, dict(tokens=100 * TOKENS, stage=3, hit=0.5))
        run = Run(self.folder, compiled=False, tokens=TOKENS, model=model)
        run.halves.close()
        self.assertEqual([run.state[k] for k in ('tokens', 'step', 'stage')], [100 * TOKENS, 100, 3])
        for name, rounded in wt.working(masters, specs, True, torch.float32).items():
            self.assertTrue(torch.equal(run.masters[name], rounded), name)
        export.write(masters, specs, config, tok_file, model)
        with self.assertRaisesRegex(ValueError, 'does not say how far it was trained'):
            Run(self.folder, compiled=False, tokens=TOKENS, model=model)

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

    def test_the_average_lags_behind_the_masters(self):
        run = Run(self.folder, compiled=False, tokens=TOKENS)
        try:
            start = run.masters['head'].clone()
            run.masters['head'] += 1.0
            run.take_average()
            self.assertTrue(torch.allclose(run.average['head'], start + 0.5))       # the second of two
            run.averaged = 1000
            run.take_average()
            self.assertTrue(torch.allclose(run.average['head'], start + 0.5 + 0.005))
        finally:
            run.halves.close()


class ScheduleTest(unittest.TestCase):
    def test_a_stage_ends_by_its_hit_rate_but_not_before_its_least_and_not_after_its_most(self):
        stage = schedule.STAGES[1]
        self.assertFalse(schedule.ended(stage, 1.0, stage.least * 1e6 - 1))
        self.assertTrue(schedule.ended(stage, stage.until, stage.least * 1e6))
        self.assertFalse(schedule.ended(stage, stage.until - 0.01, stage.most * 1e6 - 1))
        self.assertTrue(schedule.ended(stage, 0.0, stage.most * 1e6))

    def test_every_model_reaches_the_deployed_form_within_20_million_tokens(self):
        first = next(i for i, s in enumerate(schedule.STAGES) if s.options == schedule.DEPLOYED)
        self.assertLess(sum(s.most for s in schedule.STAGES[:first]), 20)
        self.assertTrue(all(s.options == schedule.DEPLOYED for s in schedule.STAGES[first:]))
        self.assertGreater(schedule.STAGES[-1].most, 1000)


if __name__ == '__main__':
    unittest.main()
