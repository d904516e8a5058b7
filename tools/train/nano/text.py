"""Real English sentences from two Debian packages:  python -m nano.text OUT.txt

- dict-wn: the example sentences of WordNet 3.0 (/usr/share/dictd/wn.dict.dz);
- bible-kjv-text, read by bible-kjv's program `bible`: the King James Bible.
One sentence a line, printable ASCII, 20 to 160 characters.
"""
import gzip
import hashlib
import re
import subprocess
import sys

WORDNET = '/usr/share/dictd/wn.dict.dz'


def wordnet():
    text = gzip.open(WORDNET, 'rt', encoding='utf-8').read()
    for quote in re.findall(r'"([A-Za-z][^"]*)"', text):
        s = ' '.join(quote.split()).replace('`', "'")
        if '(' not in s and not s.startswith("'"):
            yield s[0].upper() + s[1:] + ('' if s[-1] in '.!?' else '.')


def bible():
    # -f prints one verse a line with its reference: "Ge1:1 In the beginning ..."
    run = subprocess.run(['bible', '-f', 'Gen1:1-Rev22:21'], stdout=subprocess.PIPE, check=True, encoding='latin-1')
    for line in run.stdout.split('\n'):
        verse = re.sub(r'^\S+\d+:\d+\s+', '', line).strip()
        for s in re.split(r'(?<=[.?!])\s+', verse):
            s = s.strip()
            if s:
                yield s[0].upper() + s[1:].rstrip(':;,') + ('' if s[-1] in '.!?' else '.')


def sentences():
    seen = {}
    for s in [*wordnet(), *bible()]:
        if 20 <= len(s) <= 160 and s.isascii() and s.isprintable():
            seen.setdefault(s)
    return list(seen)


def split(lines):
    """-> training, held-out sentences; by a hash of the sentence, so that the parts do not depend on the order."""
    held = lambda s: hashlib.sha256(s.encode()).digest()[0] < 8
    return [s for s in lines if not held(s)], [s for s in lines if held(s)]


def load(path):
    with open(path, encoding='utf-8') as f:
        return split(f.read().splitlines())


if __name__ == '__main__':
    out = sentences()
    with open(sys.argv[1], 'w', encoding='utf-8') as f:
        f.write('\n'.join(out) + '\n')
    print(len(out), 'sentences,', sum(map(len, out)), 'characters')
