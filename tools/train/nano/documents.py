"""Endless, seeded look-up documents in simple English.

A document states facts (who keeps what where, codes, prices, birthdays, ...) between filler sentences, some facts are
corrected later, and questions about them follow. Two forms: plain ("Question: ... Answer: ...") and chat (the tokenizer's
User / Assistant markers). A document is a list of (text, kind) pieces; the pieces joined are its text.
"""
import random

from . import words as wd
from .words import RELATIONS

BOS, EOS = '<｜begin▁of▁sentence｜>', '<｜end▁of▁sentence｜>'
USER, ASSISTANT = '<｜User｜>', '<｜Assistant｜></think>'
TEXT, ANSWER, END, PAIR, PAD = 0, 1, 2, 3, -1           # kinds of a piece's tokens; PAIR: second word of a pair

MOST_FACTS = 60


class Writer:
    """Writes documents from a list of real sentences (empty: templates only)."""

    def __init__(self, tok, real):
        self.tok, self.real = tok, real

    def filler(self, r):
        if self.real and r.random() < 0.6:
            return r.choice(self.real)
        s = r.choice(wd.FILL_A).format(adj=r.choice(wd.FILL_ADJ), noun=r.choice(wd.FILL_NOUN))
        return f'{s} {r.choice(wd.FILL_B)}{r.choice(wd.FILL_C)}'

    def lookup(self, seed, chars, questions, chat=None, correction=0.12, facts=None, early=False):
        """-> (pieces, [{question, answer, wrong, relation, char}]): `wrong` is the outdated value of a corrected fact,
        `char` where its last statement starts. `facts`: how many, at most. `early`: most statements name the value
        before what it belongs to."""
        r = random.Random(seed)
        chat = r.random() < 0.4 if chat is None else chat
        body = max(120, chars - questions * 48 - 40)
        wanted = min(facts or MOST_FACTS, max(3, int(body / r.choice([60, 75, 100, 140]))), MOST_FACTS)
        known = draw_facts(r, wanted)
        lines = statements(r, known, correction, early)
        size = sum(len(x[1]) + 1 for x in lines)
        while size < body:
            s = self.filler(r)
            lines.append((r.random(), s, -1))
            size += len(s) + 1
        lines.sort(key=lambda x: x[0])
        text, where = lay_out(r, lines)
        order = list(range(len(known)))
        r.shuffle(order)
        while len(order) < questions:
            order += order
        info = []
        for i in order[:questions]:
            f = known[i]
            info.append(dict(question=r.choice(RELATIONS[f['relation']][3]).format(*f['key']), answer=f['value'], wrong=f['old'], relation=f['relation'], char=where[i]))
        return (chat_form if chat else plain_form)(text, info), info

    def pairs(self, seed, chars):
        """A warm-up document: a few word pairs said again and again in another order."""
        r = random.Random(seed)
        pool = wd.NAMES + wd.OBJECTS + wd.PLACES + wd.CITIES + wd.COLOURS + wd.FOODS + wd.ANIMALS + wd.JOBS + wd.MONTHS + wd.NUMBERS
        chosen = r.sample(pool, 2 * r.choice([4, 6, 8, 12, 16]))
        link, end = r.choice([' ', ' ', ' in the ', ' has ', ' is ', ' likes ', '? Answer: ', ' - ']), r.choice(['.', ',', '.\n', ''])
        couples = list(zip(chosen[::2], chosen[1::2]))
        pieces, n = [(BOS, TEXT)], 0
        while n < chars:
            r.shuffle(couples)
            for a, b in couples:
                pieces += [(f' {a}{link}'.rstrip(' '), TEXT), (' ' + b, PAIR), (end, TEXT)]
                n += len(a) + len(link) + len(b) + len(end) + 1
        return pieces

    def story(self, seed, chars):
        """Filler only: plain language."""
        r = random.Random(seed)
        out, n = [r.choice(wd.OPEN)], 0
        while n < chars:
            out.append(self.filler(r))
            n += len(out[-1]) + 1
        return [(BOS + ' '.join(x for x in out if x), TEXT)]

    def encode(self, pieces):
        """-> ids, kinds. Pieces are encoded one by one: no merge crosses an answer."""
        ids, kinds = [], []
        for e, (_, k) in zip(self.tok.encode_batch([p for p, _ in pieces], add_special_tokens=False), pieces):
            ids += e.ids
            kinds += [k] * len(e.ids)
        return ids, kinds


def draw_facts(r, wanted):
    relations = r.sample(list(RELATIONS), r.choice([2, 3, 5, 8, len(RELATIONS)]))      # few relations: keys compete harder
    out, used = [], set()
    for _ in range(wanted * 3):
        if len(out) >= wanted:
            break
        rel = r.choice(relations)
        key = tuple(r.choice(p) for p in RELATIONS[rel][0])
        if (rel, key) not in used:
            used.add((rel, key))
            out.append(dict(relation=rel, key=key, value=draw_value(r, rel), old=None))
    return out


def draw_value(r, rel):
    pool = RELATIONS[rel][1]
    return r.choice(pool) if pool else ' '.join(r.choice(wd.NUMBERS) for _ in range(2))


def statements(r, known, correction, early):
    """-> [(place in 0..1, sentence, fact)]; corrections come after their statement and change the fact."""
    say = lambda patterns, f: r.choice(patterns).format(*f['key'], v=f['value'], n=r.choice(wd.NAMES))
    first = lambda relation: wd.EARLY[relation] if early and r.random() < 0.7 else RELATIONS[relation][2]
    lines = [(r.random(), say(first(f['relation']), f), i) for i, f in enumerate(known)]
    for i, f in enumerate(known):
        later = RELATIONS[f['relation']][4]
        if later and r.random() < correction:
            new = draw_value(r, f['relation'])
            if new != f['value']:
                f['old'], f['value'] = f['value'], new
                at = lines[i][0]
                lines.append((at + (1 - at) * r.random(), say(later, f), i))
    return lines


def lay_out(r, lines):
    """Sentences in paragraphs -> text, {fact: character where its last statement starts}"""
    text = r.choice(wd.OPEN)
    sep, left, where = ' ' if text else '', r.choice([3, 4, 6, 9]), {}
    for _, sentence, fact in lines:
        if fact >= 0:
            where[fact] = len(text) + len(sep)
        text += sep + sentence
        left -= 1
        sep = ' '
        if left == 0:
            sep, left = '\n', r.choice([3, 4, 6, 9])
    return text, where


def chat_form(text, info):
    pieces = [(BOS + USER + text + '\n\n', TEXT)]
    for k, q in enumerate(info):
        pieces += [((USER if k else '') + q['question'] + ASSISTANT, TEXT), (q['answer'], ANSWER), (EOS, END)]
    return pieces


def plain_form(text, info):
    pieces = [(BOS + text + '\n', TEXT)]
    for q in info:
        pieces += [('Question: ' + q['question'] + ' Answer:', TEXT), (' ' + q['answer'], ANSWER), ('.\n', END)]
    return pieces + [(EOS, END)]
