"""The engine, through its command line only."""
import functools
import json
import os
import subprocess

from safetensors.numpy import load_file


class Engine:
    def __init__(self, program, folder, threads, arithmetic):
        self.program, self.folder, self.threads, self.arithmetic = program, folder, threads, arithmetic

    @functools.cached_property
    def help(self):
        return subprocess.run([self.program, 'logits', '--help'], stdout=subprocess.PIPE, check=True, text=True).stdout

    def missing(self, setting):
        """Flags the setting needs and this build does not know."""
        known = {word.split('=')[0] for word in self.help.split()}
        return [f for f in setting.needs if f not in known]

    def logits(self, model, setting, documents):
        """-> for each document its logits f32 and the evaluations [encoder, decoder] of its prompt. A setting without hits gives a row
        for every token and None; the others the rows from the prompt's last token on."""
        base = os.path.join(self.folder, setting.name.replace('/', '_'))
        cases, out = base + '.cases.json', base + '.logits.safetensors'
        with open(cases, 'w', encoding='utf-8') as f:
            json.dump({'cases': [{'id': d['id'], 'tokens': d['tokens'], 'prompt': d['prompt'], 'hits': setting.hit_lengths(d)} for d in documents]}, f)
        run = subprocess.run([self.program, 'logits', '--model', model, '--cases', cases, '--out', out, '--threads', str(self.threads), *setting.command(self.arithmetic)],
                             stderr=subprocess.PIPE, text=True)
        if run.returncode:
            raise SystemExit(f'ablate: {setting.name}: {" ".join(run.args)}\n{run.stderr}')
        found = load_file(out)
        os.remove(out)
        return [(found[d['id'] + '/logits'], found.get(d['id'] + '/evaluations')) for d in documents]
