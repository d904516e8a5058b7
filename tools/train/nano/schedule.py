"""The recipe: stages in order. A stage ends when look-up has recovered (hit >= `until`) and its least tokens are spent, or at
last when `most` are: every model has then seen top-k, pool and quantizers after 17 million tokens, however slowly it learns."""
from dataclasses import dataclass, field

from .model import Options


@dataclass(frozen=True)
class Stage:
    name: str
    lengths: tuple                  # tokens a document, drawn per batch
    until: float                    # share of answer tokens hit (moving average) that ends the stage
    least: float                    # million tokens the stage takes at least
    most: float                     # and at most
    pairs: float = 0.0              # share of pair documents
    stories: float = 0.05           # share of documents without facts
    facts: int = 60
    early: float = 0.0              # share of documents full of statements that name the value first; all of the shortest
    text_weight: float = 0.3        # loss weight of a text token; an answer has 8, a pair 4
    guide: float = 0.0              # weight of the aids (guide, naming)
    index: float = 0.3              # weight of the index loss
    index_lr: float = 1.0           # learning rate of the indexer, times the others'
    lost: float = 0.0               # weight of the mass outside the selection
    lr: float = 1.0
    options: Options = field(default_factory=Options)

    def questions(self, T):
        """Many questions a document: the answers are the signal."""
        return {128: (4, 5, 6), 256: (8, 10, 12), 512: (12, 16, 20), 1024: (16, 24, 32), 2048: (24, 32, 40)}[T]


DENSE = Options(index_loss=True)
SELECT = Options(index_loss=True, select=True)
ROWS = Options(index_loss=True, select=True, main_rows=True, window_rows=True, index_rows=True)
DEPLOYED = Options(index_loss=True, select=True, main_rows=True, window_rows=True, index_rows=True, weights=True, acts=True, sinkhorn=20)

STAGES = [
    Stage('short', (128,), 0.60, 0.3, 1.0, pairs=0.5, facts=8, guide=0.5, options=DENSE),
    Stage('first', (256,), 0.80, 0.5, 3.0, pairs=0.25, guide=0.2, options=DENSE),
    Stage('alone', (256,), 0.85, 0.3, 2.0, pairs=0.1, index_lr=3.0, options=DENSE),
    Stage('select', (256, 512), 0.85, 0.5, 2.5, pairs=0.05, index_lr=3.0, lost=0.3, options=SELECT),
    Stage('1k', (256, 512, 1024, 1024), 0.88, 1.0, 3.0, text_weight=0.5, lost=0.3, options=SELECT),
    Stage('rows', (512, 1024, 1024), 0.88, 0.5, 1.5, text_weight=0.7, lost=0.3, options=ROWS),
    Stage('deployed', (512, 1024, 1024), 0.90, 1.0, 4.0, text_weight=0.7, lost=0.3, options=DEPLOYED),
    Stage('long', (256, 512, 1024, 2048, 2048), 2.0, 0.0, 1e9, early=0.25, text_weight=1.0, index_lr=2.0, lost=0.3, lr=0.5, options=DEPLOYED),
]


def decay(tokens, budget):
    """Constant; over the last seventh of the budget linear from a half to 3 %."""
    left = 1 - tokens / budget
    return 1.0 if left > 1 / 7 else 0.03 + 0.47 * left * 7


def ended(stage, hit, tokens):
    """Whether a stage is over: moving hit rate, tokens spent in it."""
    return tokens >= stage.most * 1e6 or (hit >= stage.until and tokens >= stage.least * 1e6)
