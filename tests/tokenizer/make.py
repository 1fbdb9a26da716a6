"""Makes the small tokenizers of the tests, in the manner of well-known ones, and what Hugging Face's package `tokenizers` and
the package `sentencepiece` do with the texts of texts.py.

    pip install tokenizers==0.23.3 sentencepiece==0.2.3
    python tests/tokenizer/make.py tests/tokenizer/cases
"""
import io
import json
import pathlib
import sys
import tempfile

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import texts

HERE = pathlib.Path(__file__).resolve().parent
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DEEPSEEK3 = ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
             " ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def corpus():
    sample = (HERE / "../../models/data/sample.txt").read_text()
    return [sample[i:i + 2000] for i in range(0, 40000, 2000)] + 3 * texts.LANGUAGES + 3 * texts.CODE


def train(tokenizer, trainer):
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def bpe(vocab=420, alphabet=True, special=(), **options):
    return trainers.BpeTrainer(vocab_size=vocab, show_progress=False, special_tokens=list(special),
                               initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if alphabet else [], **options)


def byte_level(pre_tokenizer, special=("<|endoftext|>",), normalizer=None, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return train(tokenizer, bpe(special=special))


def gpt2():
    return byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def llama3():
    tokenizer = byte_level(pre_tokenizers.Sequence([split(LLAMA3), BYTES]), ["<|begin_of_text|>", "<|end_of_text|>"], ignore_merges=True)
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
                                      special_tokens=[("<|begin_of_text|>", 0)])])
    return tokenizer


def qwen2():
    return byte_level(pre_tokenizers.Sequence([split(QWEN2), BYTES]), ["<|endoftext|>", "<|im_start|>"], normalizers.NFC())


def gpt4o():
    return byte_level(pre_tokenizers.Sequence([split(O200K), BYTES]))


def deepseek3():
    return byte_level(pre_tokenizers.Sequence([split(r"\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"), split(DEEPSEEK3), BYTES]),
                      ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"], normalizers.Sequence([]))


def deepseek_coder():
    parts = ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+"]
    return byte_level(pre_tokenizers.Sequence([*map(split, parts), pre_tokenizers.Digits(True), split(r"\s+$"), BYTES]))


def smollm():
    return byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]))


def falcon():
    return byte_level(pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
                                               pre_tokenizers.Digits(False), split("[0-9][0-9][0-9]")]))


def neox():
    tokenizer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), normalizer=normalizers.NFC())
    tokenizer.add_tokens([AddedToken(n * " ", normalized=True) for n in range(24, 1, -1)])
    return tokenizer


def roberta():
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), special)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def falling_back(normalizer, pre_tokenizer, strip):
    """The bytes, then characters and their merges, as out of SentencePiece."""
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    train(tokenizer, bpe(600, False, special, limit_alphabet=90))
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = content["added_tokens"][:3] # bytes are no tokens that texts name
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps + [decoders.Strip(" ", 1, 0)] if strip else steps)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return tokenizer


def gemma():
    return falling_back(normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"), False)


def llama2():
    return falling_back(normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None, True)


def mistral():
    return falling_back(None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False), True)


def phi3():
    tokenizer = llama2()
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>"), AddedToken("<|user|>", rstrip=True)])
    tokenizer.add_tokens([AddedToken("word", single_word=True), AddedToken("<mask>", rstrip=True, normalized=False)])
    return tokenizer


def bert():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    train(tokenizer, trainers.WordPieceTrainer(vocab_size=700, show_progress=False, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                                             special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def wordlevel():
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation()])
    return train(tokenizer, trainers.WordLevelTrainer(vocab_size=400, show_progress=False, special_tokens=["[UNK]"]))


def clip():
    tokenizer = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>", continuing_subword_prefix=""))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+", "removed", True),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.BPEDecoder("</w>")
    return train(tokenizer, bpe(500, special=["<|startoftext|>", "<|endoftext|>"], end_of_word_suffix="</w>"))


def charsmap(full):
    """SentencePiece's own rules, or a few hundred of them that fit a test."""
    kept = {"normalization_rule_name": "nmt_nfkc"} if full else {"normalization_rule_tsv": rules()}
    model = sentencepiece_model("unigram", 20, ["a b c abc ab bc"], **kept)
    from sentencepiece import sentencepiece_model_pb2 as pb
    proto = pb.ModelProto()
    proto.ParseFromString(model)
    return proto.normalizer_spec.precompiled_charsmap


def rules():
    import unicodedata
    lines, chosen = [], [*range(0x80, 0x250), *range(0x2000, 0x2070), *range(0x2100, 0x2190), *range(0xff01, 0xff60), 0xfb01, 0xfb02, 0x1e9b, 0xac01]
    for c in chosen:
        to = unicodedata.normalize("NFKC", chr(c))
        if to != chr(c):
            lines.append(f"{c:X}\t{' '.join(f'{ord(x):X}' for x in to)}")
    lines += ["9\t20", "A\t20", "200B\t20", "FEFF\t20", "41 30A\tC5", "65 301\tE9", "1\t", "3000\t20"]
    path = pathlib.Path(tempfile.mkdtemp()) / "rules.tsv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def unigram(normalizer, pre_tokenizer, vocab=600):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.decoder = decoders.Metaspace()
    train(tokenizer, trainers.UnigramTrainer(vocab_size=vocab, show_progress=False, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>"))
    content = json.loads(tokenizer.to_str())
    content["model"]["vocab"] = [[piece, round(score, 2)] for piece, score in content["model"]["vocab"]] # short, and with equal ones
    return Tokenizer.from_str(json.dumps(content))


def t5(full=False):
    tokenizer = unigram(normalizers.Precompiled(charsmap(full)), pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]))
    tokenizer.add_special_tokens([AddedToken("<extra_id_0>", lstrip=True, rstrip=True)])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return tokenizer


def xlmr(full=False):
    normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap(full)), normalizers.Replace(Regex(" {2,}"), " ")])
    return unigram(normalizer, pre_tokenizers.Metaspace())


def whole_unigram():
    return unigram(normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(" ", "▁")]), None, 700)


TOKENIZERS = {f.__name__: f for f in (gpt2, llama3, qwen2, gpt4o, deepseek3, deepseek_coder, smollm, falcon, neox, roberta, gemma, llama2,
                                      mistral, phi3, bert, wordlevel, clip, t5, xlmr, whole_unigram)}


def sentencepiece_model(kind, vocab, of=None, **options):
    out = io.BytesIO()
    lines = [line for text in of or corpus() for line in text.splitlines() if line.strip()]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, model_type=kind, vocab_size=vocab,
                                             minloglevel=2, num_threads=1, hard_vocab_limit=kind == "bpe", **options)
    return out.getvalue()


def sentencepiece_models(full=False):
    own = {} if full else {"normalization_rule_tsv": rules()}
    return {
        "unigram": sentencepiece_model("unigram", 640, **own),
        "unigram-symbols": sentencepiece_model("unigram", 700, byte_fallback=True, character_coverage=0.98, normalization_rule_name="identity",
                                               user_defined_symbols=["<mask>", "the", "\n"], remove_extra_whitespaces=False),
        "bpe": sentencepiece_model("bpe", 800, byte_fallback=True, character_coverage=0.98, normalization_rule_name="identity",
                                   remove_extra_whitespaces=False, split_digits=True),
        "bpe-symbols": sentencepiece_model("bpe", 700, character_coverage=0.98, user_defined_symbols=["<mask>", "▁▁", "wor"],
                                           add_dummy_prefix=False, normalization_rule_name="identity", remove_extra_whitespaces=False),
        "bpe-behind": sentencepiece_model("bpe", 640, treat_whitespace_as_suffix=True, pad_id=3, **own),
    }


def old_form(content):
    """As files were written in 2020: no types, merges as texts."""
    model = content["model"]
    if model["type"] in ("BPE", "WordPiece"):
        del model["type"]
    for name in ("unk_token", "continuing_subword_prefix", "end_of_word_suffix"):
        if name in model and model[name] is None:
            model[name] = ""
    if "merges" in model:
        model["merges"] = ["#version: 0.2"] + [" ".join(pair) for pair in model["merges"]]
    return content


PRE_TOKENIZERS = [
    *[{"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}
      for kind, pattern in (("String", "-"), ("Regex", r"\d+|x"))
      for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous") for invert in (False, True)],
    *[{"type": "Punctuation", "behavior": behavior} for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")],
    *[{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
      for pattern in (r"\w+", r"[^\w\s]", r"\bx\w*\b", r"^.|.$", r"\s", r"x*", r"(a|b)+?", r"[\p{Han}]+", r"\p{^L}+", r"(?<=a)b", r"\p{Lu}{,2}", r"(?i)A|é",
                      r"a{1,2}+b?", r"[[:digit:][:alpha:]]+", r"\u0061|\x{62}|\x31", r"[^\S\n]+", r"(?>a+)b", r"\S++\s*+")],
    {"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "BertPreTokenizer"},
    {"type": "Digits", "individual_digits": True}, {"type": "Digits", "individual_digits": False},
    *[{"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}
      for scheme in ("always", "never", "first") for split in (True, False)],
    {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"String": "-"}, "behavior": "Isolated", "invert": False},
                                           {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}]},
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
]
PIECES = ["a-b--c", "-", "--", "-a-", "12x34 xx5", "ab aab x ax", "Hello, world!  (x) _y é\u0301 AB1", " a  b ", "日本語 кот ½ x²", "a\nb\n", "ßA sS\u200dx"]
NORMALIZERS = [
    {"type": "NFC"}, {"type": "NFD"}, {"type": "NFKC"}, {"type": "NFKD"}, {"type": "Lowercase"}, {"type": "StripAccents"}, {"type": "Nmt"},
    {"type": "Strip", "strip_left": True, "strip_right": False}, {"type": "Strip", "strip_left": False, "strip_right": True}, {"type": "Prepend", "prepend": "▁x"},
    {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": "_"}, {"type": "Replace", "pattern": {"String": "a"}, "content": ""},
    *[{"type": "BertNormalizer", "clean_text": a, "handle_chinese_chars": b, "strip_accents": c, "lowercase": d}
      for a, b, c, d in ((True, True, None, True), (True, True, None, False), (False, False, True, False), (False, True, False, True))],
]


def dump(value, path):
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(exist_ok=True)
    plain = texts.LANGUAGES + texts.CODE + texts.ODD
    every = plain + [text.encode("latin-1").decode("utf-8", "replace") for text in texts.BROKEN]
    expected = {}

    def recorded(number, encode, all_texts):
        """Ids of each text, of those in many languages every twelfth only."""
        return [encode(text) if i >= len(texts.LANGUAGES) or i % 12 == number % 12 else [] for i, text in enumerate(all_texts)]

    for number, (name, make) in enumerate(TOKENIZERS.items()):
        tokenizer = make()
        content = json.loads(tokenizer.to_str())
        if name in ("gpt2", "bert"):
            content = old_form(content)
        dump(content, out / f"{name}.json")
        ids = recorded(number, lambda text: tokenizer.encode(text, add_special_tokens=False).ids, every)
        expected[f"{name}.json"] = {"ids": ids, "special": tokenizer.encode("a").ids, "size": 1 + max(tokenizer.get_vocab().values()),
                                    "decoded": [tokenizer.decode(i, skip_special_tokens=True) for i in ids[20:50:2] if i]}
    for number, (name, model) in enumerate(sentencepiece_models().items()):
        (out / f"{name}.model").write_bytes(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        ids = recorded(number, processor.encode, plain)
        expected[f"{name}.model"] = {"ids": ids, "special": processor.encode("a", add_bos=True, add_eos=True), "size": processor.vocab_size(),
                                     "decoded": [processor.decode(i) for i in ids[20:50:2] if i]}
    (out / "expected.json").write_text("{\"texts\":" + json.dumps(plain) + ",\n\"broken\":" + json.dumps(texts.BROKEN) + ",\n\"cases\":{\n" + ",\n".join(
        f"{json.dumps(name)}:{json.dumps(case, ensure_ascii=False, separators=(',', ':'))}" for name, case in expected.items()) + "}}\n")
    steps = {"pre_tokenizers": [], "normalizers": [], "texts": {"pre_tokenizers": PIECES, "normalizers": PIECES + texts.ODD[11:]}} # what is not recorded stays as it is
    tokenizer = Tokenizer(models.BPE())
    for kind, all_of_them in (("pre_tokenizers", PRE_TOKENIZERS), ("normalizers", NORMALIZERS)):
        inputs = steps["texts"][kind]
        for step in all_of_them:
            content = json.loads(tokenizer.to_str())
            content[kind[:-1]] = step
            read = Tokenizer.from_str(json.dumps(content))
            apply = (lambda text: [p for p, _ in read.pre_tokenizer.pre_tokenize_str(text)]) if kind == "pre_tokenizers" else read.normalizer.normalize_str
            steps[kind].append({"step": step, "results": [[i, apply(text)] for i, text in enumerate(inputs) if apply(text) not in (text, [text])]})
    dump(steps, out / "steps.json")


if __name__ == "__main__":
    main()
