"""The engine, through its command line only."""
import functools
import json
import os
import subprocess

from safetensors.numpy import load_file


class Engine:
    def __init__(self, program, folder, threads):
        self.program, self.folder, self.threads = program, folder, threads

    @functools.cached_property
    def help(self):
        return subprocess.run([self.program, 'logits', '--help'], stdout=subprocess.PIPE, check=True, text=True).stdout

    def missing(self, setting):
        """Flags the setting needs and this build does not know."""
        known = self.help.split()
        return [f for f in setting.needs if f not in known]

    def logits(self, model, setting, documents):
        """-> [logits [tokens, vocabulary] f32] of the documents"""
        cases, out = (os.path.join(self.folder, n) for n in ('cases.json', 'logits.safetensors'))
        with open(cases, 'w', encoding='utf-8') as f:
            json.dump({'cases': [{'id': d['id'], 'tokens': d['tokens'], 'prompt': d['prompt']} for d in documents]}, f)
        run = subprocess.run([self.program, 'logits', '--model', model, '--cases', cases, '--out', out, '--threads', str(self.threads), *setting.command()],
                             stderr=subprocess.PIPE, text=True)
        if run.returncode:
            raise SystemExit(f'ablate: {setting.name}: {" ".join(run.args)}\n{run.stderr}')
        found = load_file(out)
        os.remove(out)
        return [found[d['id'] + '/logits'] for d in documents]
