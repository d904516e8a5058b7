"""Held-out look-up documents as tokens, from the training's generator with seeds and real sentences it never uses:
   python -m ablate.documents TOKENIZER REAL_TXT OUT.json [--tokens T ..] [--count N ..]
"""
import argparse
import json

from nano import text
from nano.documents import ANSWER, BOS, USER, Writer
from tokenizers import Tokenizer

SEED = 6_000_000_000
CHARS_PER_TOKEN = 3.95


def spans(kinds, kind):
    """[(first, end)] of the runs of `kind`"""
    edges = [i for i in range(len(kinds) + 1) if (i < len(kinds) and kinds[i] == kind) != (i > 0 and kinds[i - 1] == kind)]
    return list(zip(edges[::2], edges[1::2]))


def document(writer, seed, tokens, questions):
    """-> {id, tokens, prompt, answers: [{first, end, distance, relation, corrected, again}]}; `prompt`: tokens before the first answer,
    `again`: the same fact was asked before in this document (its answer is then near)."""
    chars = int(tokens * CHARS_PER_TOKEN)
    while True:
        pieces, info = writer.lookup(seed, chars, questions)
        ids, kinds = writer.encode(pieces)
        if len(ids) <= tokens:
            break
        chars = int(chars * min(0.97, tokens / len(ids)))
    body = pieces[0][0]
    start = len(BOS + USER) if body.startswith(BOS + USER) else len(BOS)
    answers, seen = [], set()
    for (first, end), fact in zip(spans(kinds, ANSWER), info):
        said = len(writer.tok.encode(body[:start + fact['char']], add_special_tokens=False).ids)
        answers.append(dict(first=first, end=end, distance=first - said, relation=fact['relation'], corrected=fact['wrong'] is not None, again=fact['char'] in seen))
        seen.add(fact['char'])
    return dict(id=f'{tokens}-{seed - SEED}', tokens=ids, prompt=answers[0]['first'], answers=answers)


def main():
    a = argparse.ArgumentParser()
    a.add_argument('tokenizer')
    a.add_argument('real')
    a.add_argument('out')
    a.add_argument('--tokens', type=int, nargs='+', default=[384, 1024, 2048], help='lengths')
    a.add_argument('--count', type=int, nargs='+', default=[180, 90, 40], help='documents of each length')
    a.add_argument('--questions', type=int, default=6)
    a = a.parse_args()
    writer = Writer(Tokenizer.from_file(a.tokenizer), text.load(a.real)[1])
    if len(a.count) != len(a.tokens):
        raise SystemExit(f'ablate.documents: {len(a.tokens)} lengths, but {len(a.count)} counts')
    order = sorted((i / n, t, i) for t, n in zip(a.tokens, a.count) for i in range(n))         # every length from the start on
    found = [document(writer, SEED + 100_000 * t + i, t, a.questions) for _, t, i in order]
    with open(a.out, 'w', encoding='utf-8') as f:
        json.dump({'documents': found}, f)
    print(f'{len(found)} documents, {sum(len(d["tokens"]) for d in found)} tokens, {sum(len(d["answers"]) for d in found)} questions')


if __name__ == '__main__':
    main()
