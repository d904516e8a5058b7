"""Every bench runs and prints its shares; how large they are is never asked here, since machines are shared.

usage: bench_test.py SEEKLINE MODELS BENCH_FOLDER
"""
import json
import pathlib
import subprocess
import sys
import unittest

SEEKLINE, MODELS, BENCHES = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
# Programs whose every line gives a share of what the machine can do; of the others one line is enough.
WITH_SHARES = {"linear_bench", "attention_bench", "index_bench", "elementwise_bench"}

QUICK = ("--rounds", "1", "--read-mib", "64")  # touching gigabytes takes minutes on some virtual machines


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def bench(model, *flags):
    return json.loads(run(SEEKLINE, "bench", "--model", MODELS / model, "--json", *QUICK, *flags))


class Bench(unittest.TestCase):
    def check_case(self, case):
        self.assertGreater(case["tokens_s"], 0)
        self.assertGreater(case["bytes_per_token"], 0)
        self.assertGreater(case["flops_per_token"], 0)
        self.assertGreater(case["share"], 0)
        self.assertLessEqual(case["share_min"], case["share"])
        self.assertLessEqual(case["share"], case["share_max"])
        self.assertAlmostEqual(sum(part["time_fraction"] for part in case["parts"]), 1, places=6)

    def check_report(self, report):
        for key in ("read_gb_s", "bf16_gflops", "int8_gops"):
            self.assertIn(key, report["machine"])
        self.assertGreater(report["machine"]["read_gb_s"], 0)
        for case in report["decode"] + report["prefill"]:
            self.check_case(case)

    def test_decode_and_prefill_of_v41_by_part(self):
        report = bench("v41-tiny", "--context", "40,200", "--batch", "1,2", "--prefill", "16")
        self.check_report(report)
        cases = [(case["context"], case["batch"]) for case in report["decode"]]
        self.assertEqual(cases, [(40, 1), (40, 2), (200, 1), (200, 2)])
        self.assertEqual([case["tokens"] for case in report["prefill"]], [16])
        parts = {part["part"] for part in report["decode"][0]["parts"]}
        for name in ("attention", "routed experts", "shared experts", "cache reads", "index scan", "head"):
            self.assertIn(name, parts)

    def test_every_vector_level_can_be_forced(self):
        for isa in ("portable", "avx2"):
            report = bench("llama-gqa-tiny", "--isa", isa, "--context", "40", "--prefill", "16")
            self.assertEqual(report["machine"]["isa"], isa)
            self.check_report(report)

    def test_the_table_names_what_json_does(self):
        text = run(SEEKLINE, "bench", "--model", MODELS / "llama-mha-tiny", *QUICK, "--context", "40", "--prefill", "16")
        for word in ("machine", "decode at 40", "prefill of 16", "share", "feed-forward", "head"):
            self.assertIn(word, text)

    def test_a_context_beyond_the_model_is_refused(self):
        done = subprocess.run([SEEKLINE, "bench", "--model", MODELS / "llama-mha-tiny", "--context", "100000000"],
                              capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 2)
        self.assertIn("cannot be timed", done.stderr)

    def test_every_kernel_bench_runs_and_prints_its_share(self):
        programs = sorted(BENCHES.glob("*_bench"))
        self.assertTrue(WITH_SHARES <= {program.name for program in programs}, programs)
        for program in programs:
            with self.subTest(program.name):
                names = run(program, "--benchmark_list_tests").split()
                if program.name not in WITH_SHARES:
                    names = names[:1]
                text = run(program, "--benchmark_filter=^(" + "|".join(names[:: max(1, len(names) // 2)]) + ")$")
                lines = [line for line in text.splitlines() if "/iterations:" in line]
                if program.name in WITH_SHARES:
                    self.assertGreater(len(lines), 0)
                    self.assertEqual([line for line in lines if "share=" not in line], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
