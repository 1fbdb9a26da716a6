"""Writes rows for a classifier out of the sample text's sentences: how often each letter stands in one, and of which kind it is.
Needs numpy.

    python3 make_data.py STORIES.txt TRAIN.npz TEST.npz
"""
import re
import string
import sys

import numpy as np

KINDS = ["lived near", "came by with", "went along", ""]  # what stands in a sentence of the kind; the last is all others


def shares(sentence):
    return [sentence.lower().count(letter) / len(sentence) for letter in string.ascii_lowercase]


def kind(sentence):
    return next(i for i, part in enumerate(KINDS) if part in sentence)


source, train, test = sys.argv[1:]
sentences = sorted(set(re.findall(r"[^.?\n]+[.?]", open(source).read())))  # each once: none is in both files
for path, part in ((train, [s for i, s in enumerate(sentences) if i % 5]), (test, sentences[::5])):
    rows = np.array([shares(s) for s in part], np.float32)
    np.savez(path, input=rows, labels=np.array([kind(s) for s in part]))
