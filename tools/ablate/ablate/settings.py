"""What is measured: each setting is the deployed model, computed exactly, with one thing changed.

A thing is changed by flags of `seekline logits` or by a derived model folder (model.py): another number in config.json, or
weights set to zero. `needs` names flags that a build must know; where it does not, the setting is refused by name.
"""
from dataclasses import dataclass, field

EXACT = {'--activations': 'reference', '--rows': 'deployed', '--arithmetic': 'f32'}


@dataclass(frozen=True)
class Setting:
    name: str
    group: str
    about: str
    flags: dict = field(default_factory=dict)       # added to EXACT
    config: tuple = ()                              # functions text_config -> {key: value}
    zero: tuple = ()                                # endings of weights set to zero
    needs: tuple = ()

    def command(self):
        return [x for pair in (EXACT | self.flags).items() for x in pair]


def top_k(share):
    return lambda c: {'index_topk': max(1, int(c['index_topk'] * share))}


def everything(c):
    """Every entry is selected; the pool holds every block."""
    n = c['max_position_embeddings']
    return {'index_topk': n, 'candidate_topk_blocks': n}


REFERENCE = Setting('exact', 'reference', 'as deployed, computed in f32')

SETTINGS = [
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
    Setting('ced', 'prefill', 'decoder layers on the last tokens of the prompt only', {'--decoder': 'ced'}, needs=('--decoder',)),
    *(Setting(f'bounded-replay-{n}', 'replay', f'prefix hit {n} tokens before the end of the prompt, windows rebuilt from the window before it',
              {'--replay': 'bounded', '--hit-before-end': str(n)}, needs=('--replay', '--hit-before-end')) for n in (1, 8, 32, 128, 512)),
    Setting('bounded-replay-chain', 'replay', 'hits every 64 tokens, each on the rows of the last',
            {'--replay': 'bounded', '--hit-every': '64'}, needs=('--replay', '--hit-every')),
    Setting('exact-replay-32', 'replay', 'the same by exact replay: must not differ in a bit',
            {'--replay': 'exact', '--hit-before-end': '32'}, needs=('--replay', '--hit-before-end')),
]


def chosen(names):
    """Settings by name or group, in the order of the table; an unknown name is an error."""
    known = {x for s in SETTINGS for x in (s.name, s.group)}
    for n in names or ():
        if n not in known:
            raise SystemExit(f'ablate: no setting or group {n!r}; there are {", ".join(s.name for s in SETTINGS)}')
    return [s for s in SETTINGS if not names or s.name in names or s.group in names]
