"""What is measured: each setting is the deployed model, every layer run on every token, with one thing changed.

A thing is changed by flags of `seekline logits` or by a derived model folder (model.py): another number in config.json, or
weights set to zero. `needs` names flags that a build must know; where it does not, the setting is refused by name.
"""
from dataclasses import dataclass, field
from typing import Callable, Optional

DEPLOYED = {'--activations': 'reference', '--rows': 'deployed'}


@dataclass(frozen=True)
class Setting:
    name: str
    group: str
    about: str
    flags: dict = field(default_factory=dict)       # added to DEPLOYED
    config: tuple = ()                              # functions text_config -> {key: value}
    zero: tuple = ()                                # endings of weights set to zero
    hits: Optional[Callable] = None                 # prompt tokens -> lengths computed before and reused; None: no prompt, one plain forward

    def command(self, arithmetic):
        return [x for pair in (DEPLOYED | {'--arithmetic': arithmetic} | self.flags).items() for x in pair] + ['--prompts'] * (self.hits is not None)

    @property
    def needs(self):
        return [f for f in (*self.flags, *['--prompts'] * (self.hits is not None)) if f not in ('--activations', '--rows', '--arithmetic')]

    def hit_lengths(self, document):
        """Those a prompt of this length has."""
        return [] if self.hits is None else [n for n in self.hits(document['prompt']) if 0 < n < document['prompt']]


def top_k(share):
    return lambda c: {'index_topk': max(1, int(c['index_topk'] * share))}


def everything(c):
    """Every entry is selected; the pool holds every block."""
    n = c['max_position_embeddings']
    return {'index_topk': n, 'candidate_topk_blocks': n}


def before_end(n):
    return lambda prompt: [prompt - n]


def every(n):
    return lambda prompt: list(range(n, prompt, n))


def replay(way, name, about, hits, decoder='exact'):
    prefix, ways = 'ced-' if decoder == 'ced' else '', {'bounded': 'windows rebuilt from the window before the hit', 'exact': 'exact replay: not a bit may differ'}
    return Setting(f'{prefix}{way}-{name}', 'replay', f'{about}; {ways[way]}' + (', and CED' if prefix else ''), {'--decoder': decoder, '--replay': way}, hits=hits)


REFERENCE = Setting('reference', 'reference', 'as deployed, every layer on every token')

SETTINGS = [
    Setting('f32', 'arithmetic', 'f32 products', {'--arithmetic': 'f32'}),
    Setting('fast', 'arithmetic', 'bf16 products, as the released kernels', {'--arithmetic': 'fast'}),
    Setting('rows-bf16', 'rows', 'main, index and window rows in bf16', {'--rows': 'bf16'}),
    Setting('rows-f32', 'rows', 'no row quantizer', {'--rows': 'f32'}),
    Setting('plain', 'activations', 'no activation quantizer', {'--activations': 'plain'}),
    Setting('plain-rows-f32', 'activations', 'neither activation nor row quantizers', {'--activations': 'plain', '--rows': 'f32'}),
    Setting('select-all', 'selection', 'every entry selected', config=(everything,)),
    Setting('top-k-1/2', 'selection', 'half of the selected entries', config=(top_k(1 / 2),)),
    Setting('top-k-1/4', 'selection', 'a quarter', config=(top_k(1 / 4),)),
    Setting('top-k-1/8', 'selection', 'an eighth', config=(top_k(1 / 8),)),
    Setting('pool-off', 'selection', 'every index layer selects from all entries', config=(lambda c: {'candidate_source_layer_id': -1},)),
    Setting('window-1/2', 'window', 'half of the window', config=(lambda c: {'sliding_window': c['sliding_window'] // 2},)),
    Setting('engram-off', 'engram', 'Engram adds nothing', zero=('engram.wkv.weight',)),
    Setting('ced', 'prefill', 'decoder layers on the last window of the prompt only', {'--decoder': 'ced'}, hits=lambda prompt: []),
    *(replay('bounded', f'{n}', f'a prefix hit {n} tokens before the end of the prompt', before_end(n)) for n in (1, 8, 32, 128)),
    replay('bounded', 'half', 'a prefix hit in the middle of the prompt', lambda prompt: [prompt // 2]),
    replay('bounded', 'chain-64', 'hits every 64 tokens, each on what the last left', every(64)),
    replay('bounded', 'chain-256', 'hits every 256 tokens, each on what the last left', every(256)),
    replay('bounded', '32', 'a prefix hit 32 tokens before the end of the prompt', before_end(32), 'ced'),
    replay('exact', '32', 'a prefix hit 32 tokens before the end of the prompt', before_end(32)),
    replay('exact', 'chain-64', 'hits every 64 tokens', every(64)),
]


def chosen(names, arithmetic='f32'):
    """Settings by name or group, in the order of the table, without the one that is the reference; an unknown name is an error."""
    known = {x for s in SETTINGS for x in (s.name, s.group)}
    for n in names or ():
        if n not in known:
            raise SystemExit(f'ablate: no setting or group {n!r}; there are {", ".join(s.name for s in SETTINGS)}')
    return [s for s in SETTINGS if s.flags.get('--arithmetic') != arithmetic and (not names or s.name in names or s.group in names)]
