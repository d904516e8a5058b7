"""The demonstration that is shipped beside the model: a held-out document and questions about it, in the chat form.
   python -m nano.demo REAL_TXT MODEL_FOLDER        writes MODEL_FOLDER/demo/document.txt and questions.json

The first document from a fixed seed on that asks about six relations; nothing is chosen by what the model answers.
"""
import itertools
import json
import os
import sys

from tokenizers import Tokenizer

from . import text
from .documents import BOS, USER, Writer

SEED, CHARS, FACTS, QUESTIONS, RELATIONS = 8_000_000_041, 6200, 24, 10, 6


def make(writer):
    """-> document, [{question, answer, distance}]: tokens from the fact's last statement to the end of the document"""
    documents = (writer.lookup(seed, CHARS, QUESTIONS, chat=True, facts=FACTS) for seed in itertools.count(SEED))
    pieces, info = next(d for d in documents if len({f['relation'] for f in d[1]}) >= RELATIONS)
    document = pieces[0][0][len(BOS + USER):].rstrip('\n')
    count = lambda s: len(writer.tok.encode(s, add_special_tokens=False).ids)
    return document, [dict(question=f['question'], answer=f['answer'], distance=count(document) - count(document[:f['char']])) for f in info]


def main():
    real, folder = sys.argv[1:3]
    document, questions = make(Writer(Tokenizer.from_file(os.path.join(folder, 'tokenizer.json')), text.load(real)[1]))
    out = os.path.join(folder, 'demo')
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, 'document.txt'), 'w', encoding='utf-8') as f:
        f.write(document)
    with open(os.path.join(out, 'questions.json'), 'w', encoding='utf-8') as f:
        json.dump({'questions': questions}, f, indent=1)
        f.write('\n')
    print(f'{len(document)} characters, {len(questions)} questions')


if __name__ == '__main__':
    main()
