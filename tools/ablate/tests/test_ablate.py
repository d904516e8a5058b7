"""python -m unittest discover -s tools/ablate/tests   (PYTHONPATH=tools/ablate:tools/train)"""
import io
import json
import os
import tempfile
import unittest

import numpy as np
from safetensors.numpy import load_file, save_file

from ablate import measure, model, publish, report, settings
from ablate.engine import Engine
from ablate.report import row
from ablate.statistics import bootstrap, wilson

CONFIG = {'text_config': {'index_topk': 64, 'sliding_window': 32, 'max_position_embeddings': 4096, 'candidate_topk_blocks': 32, 'candidate_source_layer_id': 4}}


def named(name):
    return next(s for s in settings.SETTINGS if s.name == name)


class StatisticsTest(unittest.TestCase):
    def test_wilson_gives_the_textbook_interval(self):
        share, low, high = wilson(8, 10)
        self.assertEqual(share, 0.8)
        self.assertAlmostEqual(low, 0.4902, places=4)
        self.assertAlmostEqual(high, 0.9433, places=4)
        self.assertEqual(wilson(10, 10)[2], 1.0)
        self.assertEqual(wilson(0, 5)[:2], (0.0, 0.0))

    def test_bootstrap_has_no_width_without_variation_and_the_normal_width_with_it(self):
        self.assertEqual(bootstrap([2, 4, 6], [1, 2, 3]), (2.0, 2.0, 2.0))
        x = np.random.default_rng(0).normal(size=400)
        value, low, high = bootstrap(x, np.ones(400))
        self.assertAlmostEqual(value, x.mean())
        self.assertAlmostEqual((high - low) / 2, 1.96 * x.std() / 20, delta=0.015)

    def test_bootstrap_of_a_perplexity_is_the_exponential_of_the_mean(self):
        self.assertAlmostEqual(bootstrap([1, 3], [1, 1], np.exp)[0], np.exp(2))


class MeasureTest(unittest.TestCase):
    document = dict(id='a', tokens=[0, 1, 2, 3, 1], prompt=3, answers=[dict(first=3, end=5, distance=200, again=False)])

    def logits(self):
        z = np.zeros((5, 4), np.float32)
        z[2, 3] = z[3, 1] = 5            # rows 2 and 3 foretell tokens 3 and 1: the answer
        return z

    def test_a_run_beside_itself_has_no_distance(self):
        f = measure.document(self.document, self.logits(), self.logits())
        self.assertEqual((f['rows'], f['kl'], f['agree'], f['right'], f['body_rows']), (2, 0.0, 2, [True], 2))
        self.assertAlmostEqual(f['body_nll'], 2 * np.log(4))

    def test_one_wrong_token_spoils_an_answer(self):
        other = self.logits()
        other[3] = [9, 0, 0, 0]
        f = measure.document(self.document, self.logits(), other)
        self.assertEqual((f['agree'], f['right']), (1, [False]))
        self.assertGreater(f['kl'], 1)
        self.assertEqual(f['kl_first'], 0.0)

    def test_rows_behind_the_prompt_alone_give_the_same_figures(self):
        whole, part = measure.document(self.document, self.logits(), self.logits()), measure.document(self.document, self.logits(), self.logits()[2:], [18, 6])
        self.assertEqual((part['prompt'], part['encoder'], part['decoder'], part['same']), (3, 18, 6, True))
        self.assertEqual({k: whole[k] for k in ('rows', 'kl', 'nll', 'right', 'agree')}, {k: part[k] for k in ('rows', 'kl', 'nll', 'right', 'agree')})
        self.assertNotIn('body_nll', part)

    def test_the_report_counts_the_first_question_about_a_fact_only(self):
        d = self.document | {'answers': [dict(first=3, end=4, distance=200, again=False), dict(first=4, end=5, distance=3, again=True)]}
        f = measure.document(d, self.logits(), self.logits())
        f['right'] = [True, False]
        r = row(settings.REFERENCE, [d], [f], [f])
        self.assertEqual(r['accuracy'][0], 1.0)
        self.assertEqual(r['distance'][200]['count'], 1)


class ReportTest(unittest.TestCase):
    def test_changes_are_paired_with_the_reference(self):
        d = MeasureTest.document
        good = measure.document(d, MeasureTest.logits(self), MeasureTest.logits(self))
        bad = good | {'right': [False], 'nll': good['nll'] + np.log(2) * good['rows']}
        r = row(settings.REFERENCE, [d, d], [bad, good], [good, good])
        self.assertEqual(r['accuracy_change'][0], -0.5)
        self.assertAlmostEqual(r['perplexity_times'][0], 2 ** 0.5)

    def test_small_numbers_keep_their_size(self):
        self.assertEqual([report.number(x, 3) for x in (0.0, 0.1234, 0.00012, -2e-5)], ['0.000', '0.123', '1.2e-04', '-2.0e-05'])

    def test_published_words_have_every_table(self):
        d = MeasureTest.document
        f = measure.document(d, MeasureTest.logits(self), MeasureTest.logits(self))
        rows = [row(s, [d], [f], [f]) for s in (settings.REFERENCE, named('rows-f32'))] + [row(named('ced'), [d], [f | dict(prompt=3, encoder=9, decoder=3)], [f])]
        file = io.StringIO(json.dumps(dict(arithmetic='f32', lengths={'384': 1}, rows=rows, refused=[dict(name='bounded-8', missing=['--replay'])])))
        with tempfile.TemporaryDirectory() as model:
            text = publish.words(publish.read(file), model, 'quality')
        for part in ('1 documents (1 of up to 384 tokens)', '| rows-f32 |', '| setting | 200 tokens |', 'of 1 |', '| ced | 3.00 | 1.00 | 1 of 1 |', '(quality/kl.svg)', 'no --replay'):
            self.assertIn(part, text)

    def test_only_what_stands_between_the_marks_is_replaced(self):
        text = f'a\n{publish.BEGIN}\nold\n{publish.END}\nb\n'
        self.assertEqual(publish.insert(text, 'new\n'), f'a\n{publish.BEGIN}\nnew\n{publish.END}\nb\n')


class DeriveTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.model = os.path.join(self.scratch.name, 'model')
        os.makedirs(self.model)
        with open(os.path.join(self.model, 'config.json'), 'w', encoding='utf-8') as f:
            json.dump(CONFIG, f)
        save_file({'layers.1.engram.wkv.weight': np.ones((2, 3), np.float32), 'head.weight': np.ones(5, np.float32)}, os.path.join(self.model, 'model.safetensors'))

    def text(self, name):
        with open(os.path.join(model.derive(self.model, named(name), self.scratch.name), 'config.json'), encoding='utf-8') as f:
            return json.load(f)['text_config']

    def test_a_derived_config_differs_in_what_the_setting_names(self):
        base = CONFIG['text_config']
        self.assertEqual(self.text('top-k-1/2'), base | {'index_topk': 32})
        self.assertEqual(self.text('pool-off'), base | {'candidate_source_layer_id': -1})
        self.assertEqual(self.text('window-1/2'), base | {'sliding_window': 16})
        self.assertEqual(self.text('select-all'), base | {'index_topk': 4096, 'candidate_topk_blocks': 4096})

    def test_engram_off_zeroes_its_projection_in_a_copy(self):
        out = load_file(os.path.join(model.derive(self.model, named('engram-off'), self.scratch.name), 'model.safetensors'))
        self.assertFalse(out['layers.1.engram.wkv.weight'].any())
        self.assertTrue(out['head.weight'].all())
        self.assertTrue(load_file(os.path.join(self.model, 'model.safetensors'))['layers.1.engram.wkv.weight'].all())

    def test_a_setting_of_flags_alone_uses_the_model_as_it_is(self):
        self.assertEqual(model.derive(self.model, named('rows-f32'), self.scratch.name), self.model)


class EngineTest(unittest.TestCase):
    def test_flags_a_build_does_not_know_are_named(self):
        with tempfile.TemporaryDirectory() as scratch:
            program = os.path.join(scratch, 'seekline')
            with open(program, 'w', encoding='utf-8') as f:
                f.write('#!/bin/sh\necho "--model TEXT  --decoder WORD=ced  --prompts take the first  --rows WORD"\n')
            os.chmod(program, 0o755)
            engine = Engine(program, scratch, 1, 'f32')
            self.assertEqual(engine.missing(named('ced')), [])
            self.assertEqual(engine.missing(named('bounded-8')), ['--replay'])

    def test_hits_lie_inside_the_prompt(self):
        d = dict(prompt=150)
        self.assertEqual(named('bounded-32').hit_lengths(d), [118])
        self.assertEqual(named('bounded-chain-64').hit_lengths(d), [64, 128])
        self.assertEqual(named('bounded-half').hit_lengths(d), [75])
        self.assertEqual(named('ced').hit_lengths(d), [])
        self.assertEqual(named('bounded-128').hit_lengths(dict(prompt=100)), [])

    def test_a_command_has_the_flags_of_its_setting_and_the_arithmetic_of_the_run(self):
        command = named('ced-bounded-32').command('fast')
        flags = dict(zip(command[::2], command[1::2]))
        self.assertEqual((flags['--arithmetic'], flags['--decoder'], flags['--replay'], flags['--rows']), ('fast', 'ced', 'bounded', 'deployed'))
        self.assertEqual(command[-1], '--prompts')
        self.assertNotIn('--prompts', named('rows-f32').command('f32'))

    def test_the_arithmetic_of_the_run_is_no_setting_of_its_own(self):
        names = lambda arithmetic: [s.name for s in settings.chosen(None, arithmetic)]
        self.assertIn('fast', names('f32'))
        self.assertNotIn('fast', names('fast'))
        self.assertIn('f32', names('fast'))

    def test_an_unknown_setting_is_refused_by_name(self):
        with self.assertRaisesRegex(SystemExit, 'no setting or group'):
            settings.chosen(['top-k-7'])


if __name__ == '__main__':
    unittest.main()
