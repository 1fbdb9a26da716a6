"""Compares mtrun tokenize with the packages tokenizers and sentencepiece on a text of any size: every id of every document.
Documents are pieces of the files, of many lengths, and soups of the words of texts.py and of random characters.

    pip install tokenizers==0.23.3 sentencepiece==0.2.3
    PATH=build/bin:$PATH python tests/tokenizer/differential.py [--train FOLDER] FOLDER FILE...

FOLDER holds tokenizers: NAME.json and NAME.model. --train makes them there first, as make.py does but of 16,000 tokens,
trained on the text itself. Files may be folders. Not part of the tests: it takes minutes and needs the packages.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

import numpy
import sentencepiece
from tokenizers import Tokenizer

import make
import texts

MEGABYTES = 10


def soup(rng, length):
    words = [w for t in texts.LANGUAGES + texts.CODE + texts.ODD for w in t.replace(" ", "\x01 \x01").split("\x01") if w]
    return "".join(rng.choice(words) for _ in range(length))


def characters(rng, length):
    """Of those that Python's Unicode has."""
    out = []
    while len(out) < length:
        low, high = rng.choice(((1, 0x2fff), (0x300, 0x36f), (0x3000, 0xd7ff), (0xe000, 0xffff), (0x1f300, 0x1faff), (0x10000, 0x2ffff)))
        c = chr(rng.randint(low, high))
        if not 0xd800 <= ord(c) < 0xe000 and unicodedata.category(c) != "Cn":
            out.append(c if rng.random() < 0.8 else rng.choice(" \n\t.,1aé"))
    return "".join(out)


def is_text(path):
    try:
        return "\0" not in path.read_text("utf-8")
    except UnicodeDecodeError:
        return False


def documents(paths):
    rng = random.Random(7)
    files = [f for p in paths for f in (sorted(p.rglob("*")) if p.is_dir() else [p]) if f.is_file() and is_text(f)]
    parts = [soup(rng, 900) for _ in range(300)] + [characters(rng, 1500) for _ in range(100)]
    parts += [f.read_text("utf-8")[:60000] for f in files]
    found = []
    for part in parts:
        while part:
            length = rng.choice((50, 500, 2000, 2000, 8000))
            found.append(part[:length])
            part = part[length:]
    rng.shuffle(found)
    total = 0
    for i, text in enumerate(found):
        total += len(text.encode())
        if total > MEGABYTES * 1e6:
            return found[:i]
    return found


def train(folder, found):
    make.corpus = lambda: found[::2]
    small, kinds = make.bpe, make.trainers
    make.bpe = lambda vocab=0, *a, **o: small(16000, *a, **{k: v for k, v in o.items() if k != "limit_alphabet"})

    class Larger:
        BpeTrainer = kinds.BpeTrainer
        WordPieceTrainer = staticmethod(lambda **o: kinds.WordPieceTrainer(**{**o, "vocab_size": 16000}))
        UnigramTrainer = staticmethod(lambda **o: kinds.UnigramTrainer(**{**o, "vocab_size": 12000}))
        WordLevelTrainer = staticmethod(lambda **o: kinds.WordLevelTrainer(**{**o, "vocab_size": 16000}))

    make.trainers = Larger
    folder.mkdir(exist_ok=True)
    for name, function in make.TOKENIZERS.items():
        function(*([True] if name in ("t5", "xlmr") else [])).save(str(folder / f"{name}.json"))
    model = make.sentencepiece_model
    make.corpus = lambda: found[::4]
    make.sentencepiece_model = lambda kind, vocab, of=None, **o: model(kind, 8000, of, **{**o, "character_coverage": 0.995})
    for name, content in make.sentencepiece_models(True).items():
        (folder / f"{name}.model").write_bytes(content)


def ours(scratch, tokenizer, found):
    """All ids; documents are told apart by counting theirs."""
    (scratch / "docs.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in found))
    out = scratch / f"{tokenizer.name}.tokens"
    subprocess.run(["mtrun", "tokenize", scratch / "docs.jsonl", "-o", out, "--tokenizer", tokenizer], check=True, stdout=subprocess.DEVNULL)
    kind = "<u2" if json.loads((out / "index.json").read_text())["type"] == "uint16" else "<u4"
    return numpy.concatenate([numpy.fromfile(f, kind, offset=1024) for f in sorted(out.glob("*.bin"))]), json.loads((out / "index.json").read_text())["tokenizer"]["end"]


def theirs(tokenizer, found):
    if tokenizer.suffix == ".model":
        return sentencepiece.SentencePieceProcessor(model_file=str(tokenizer)).encode(found)
    return [e.ids for e in Tokenizer.from_file(str(tokenizer)).encode_batch(found, add_special_tokens=False)]


def different(got, want):
    """Documents whose ids differ. Behind one of another length the next is looked for nearby."""
    differ, at = 0, 0
    for ids in want:
        places = (at + shift for near in range(300) for shift in (near, -near) if at + shift >= 0)
        found = next((p for p in places if p < len(got) and got[p] == ids[0] and numpy.array_equal(got[p:p + len(ids)], ids)), None) if ids and at < len(got) else at
        differ += found is None
        at = (at if found is None else found) + len(ids)
    return differ + (at != len(got) and not differ)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", action="store_true")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("files", type=pathlib.Path, nargs="+")
    arguments = parser.parse_args()
    found = documents(arguments.files)
    if arguments.train:
        train(arguments.folder, found)
    print(f"{len(found)} documents, {sum(len(t.encode()) for t in found) / 1e6:.1f} MB")
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        for tokenizer in sorted(f for f in arguments.folder.iterdir() if f.suffix in (".json", ".model")):
            got, end = ours(pathlib.Path(scratch), tokenizer, found)
            want = theirs(tokenizer, found)
            differ = different(got, [ids + ([] if end is None else [end]) for ids in want])
            print(f"{tokenizer.name}: {sum(map(len, want))} tokens; {differ or 'no'} documents differ", flush=True)
            wrong += differ > 0
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
