#!/usr/bin/env python3
"""Random tokenizers, and what the Python package makes of random texts with them, for tokenizer_test.

usage: random_cases.py FOLDER --program build/dev/tests/tokenizer_test [--count 200] [--texts 60] [--seed 1]

Each round draws components, trains or makes up a small vocabulary, draws texts of all scripts, kinds of white space and
marks, and runs tokenizer_test on the result; what we write of the tokenizer is loaded by the package again and must give
the same ids. A round with a difference stays in FOLDER/seed-N. Says at the end how many there were of each model, and
fails when, of 100 or more, one of KINDS came up too rarely. Needs `pip install tokenizers sentencepiece protobuf`.
"""
import argparse
import base64
import collections
import gzip
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CORPUS = "/usr/share/dictd/gcide.dict.dz"  # Debian's dict-gcide
WORDS = ("the mill race turns a wheel water and stone it's we'll they've I'm you'd don't cafe\u0301 caf\u00e9 na\u00efve "
         "\u65e5\u672c\u8a9e \u6c34\u8eca \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u041f\u0440\u0438\u0432\u0435\u0442 "
         "\u1100\u1161\u11a8 \ud55c\uad6d\uc5b4 \u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 123 45,6 "
         "\u0660\u0661 \u2167 \u00bd x\u00b2 \ufb01ne \uff21\uff22 \u0130stanbul \u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2 \u1e9e "
         "MILL Wheel_1 a-b \"q\" ``quoted'' 'tis (x) e.g. http://a.b/?c=d#e \U0001f30a \U0001f468\u200d\U0001f469\u200d\U0001f467 "
         "\U0001f1eb\U0001f1f7 1\ufe0f\u20e3 \u00a9\u00ae\u2122 \u212b \u2126 \u0344 \u1ea4\u0323 a\u0301\u0323 \u0958 \u2f802 "
         "\u0600\u0661 \u2581 \u2581the \u0120the \u010a <0x41> ''").split()
SPACES = [" ", " ", " ", " ", " ", "  ", "   ", "\t", "\n", "\r\n", "\r", "\u00a0", "\u2003", "\u3000", "\u200b", "\u2028",
          "\u0085", "\x0b", "\x1f", "\u1680", "\ufeff", ""]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def corpus_lines():
    if not os.path.exists(CORPUS):
        return WORDS
    with gzip.open(CORPUS, "rt", encoding="utf-8", errors="replace") as file:
        return [line for line, _ in zip(file, range(40000))]


def random_character(rng):
    while True:
        kind = rng.random()
        if kind < 0.4:
            code = rng.randrange(0x0, 0x250)
        elif kind < 0.6:
            code = rng.choice([rng.randrange(0x300, 0x370), rng.randrange(0x590, 0x700), rng.randrange(0x900, 0xe80),
                               rng.randrange(0x1100, 0x1200), rng.randrange(0x1ab0, 0x1b00), rng.randrange(0x20d0, 0x20f1)])
        elif kind < 0.9:
            code = rng.randrange(0x0, 0x10000)
        else:
            code = rng.randrange(0x10000, 0x20000)
        if 0xd800 <= code < 0xe000:
            continue
        # Later Unicode versions differ from one library to the next; the package's normal forms are of Unicode 9.
        if unicodedata.category(chr(code)) == "Cn":
            continue
        if (unicodedata.combining(chr(code)) or unicodedata.decomposition(chr(code))) and (
                unicodedata.ucd_3_2_0.category(chr(code)) == "Cn"):
            continue
        return chr(code)


def random_text(rng, added, lines):
    kind = rng.random()
    if kind < 0.02:
        return rng.choice(["", " ", "\n", "\t ", "  "])
    if kind < 0.2:
        return rng.choice(lines)[: rng.randrange(1, 200)]
    pieces = []
    for _ in range(rng.randrange(1, 12)):
        what = rng.random()
        if what < 0.55:
            pieces.append(rng.choice(WORDS))
        elif what < 0.7 and added:
            pieces.append(rng.choice(added))
        elif what < 0.8:
            pieces.append(random_character(rng) * rng.choice([1, 1, 2, 3, 30]))
        else:
            pieces.append("".join(random_character(rng) for _ in range(rng.randrange(1, 6))))
        pieces.append(rng.choice(SPACES))
    return "".join(pieces)


def charsmaps():
    """Tables of sentencepiece's own normalizers."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    tables = []
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder, "text")
        text.write_text("the mill race turns a wheel\n" * 20, encoding="utf-8")
        for name in ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf"):
            prefix = os.path.join(folder, name)
            sentencepiece.SentencePieceTrainer.train(input=str(text), model_prefix=prefix, vocab_size=30, minloglevel=2,
                                                     normalization_rule_name=name, hard_vocab_limit=False)
            model = sentencepiece_model_pb2.ModelProto()
            model.ParseFromString(pathlib.Path(prefix + ".model").read_bytes())
            tables.append(base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode())
    return tables


PATTERNS = [" {2,}", r"\s+", r"[0-9]", r"\p{L}\p{M}*", "(?i)the", r"(?<=\S)a*", r"(?<=\w)\b", "^.", r"(?<=\S)$", r"(?<=l)l",
            r"[^\w\s]", r"\d+|x", r"(\w)\1", "\\u2581", r"\R", r"\h", r"(?<=\S)"]
# In a normalizer the package has what they put in front of a text twice in the next step, or panics there.
EMPTY_IN_FRONT = ["a*", r"\b", "$", "(?:)"]


def random_pattern(rng, patterns):
    if rng.random() < 0.5:
        return rng.choice([" ", "``", "''", "a", "th", "\u2581", "e\u0301", "'", "\n"])
    return Regex(rng.choice(patterns))


def random_normalizer(rng, tables, depth=0):
    if depth == 0 and rng.random() < 0.15:
        return None
    kind = rng.randrange(14 if depth < 2 else 13)
    if kind == 13:
        return normalizers.Sequence([random_normalizer(rng, tables, depth + 1) for _ in range(rng.randrange(0, 4))])
    if kind == 7 and tables:
        table = {"type": "Precompiled", "precompiled_charsmap": rng.choice(tables)}
        probe = Tokenizer(models.BPE())
        document = json.loads(probe.to_str())
        document["normalizer"] = table
        return Tokenizer.from_str(json.dumps(document)).normalizer
    return [normalizers.NFC, normalizers.NFD, normalizers.NFKC, normalizers.NFKD, normalizers.Lowercase,
            lambda: normalizers.Strip(rng.random() < 0.5, rng.random() < 0.5),
            lambda: normalizers.Replace(random_pattern(rng, PATTERNS), rng.choice(["", " ", "\u2581", "xy", '"'])),
            normalizers.NFC, normalizers.Nmt, normalizers.StripAccents, normalizers.ByteLevel,
            lambda: normalizers.Prepend(rng.choice(["\u2581", " ", "a", "the "])),
            lambda: normalizers.BertNormalizer(rng.random() < 0.7, rng.random() < 0.7, rng.choice([None, False, True]),
                                               rng.random() < 0.6)][kind]()


def random_pre_tokenizer(rng, depth=0):
    if depth == 0 and rng.random() < 0.1:
        return None
    kind = rng.randrange(13 if depth < 2 else 12)
    flag = lambda: rng.random() < 0.5
    behavior = rng.choice(["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"])
    return [lambda: pre_tokenizers.Metaspace(rng.choice(["\u2581", "_"]), rng.choice(["always", "first", "never"]), flag()),
            lambda: pre_tokenizers.ByteLevel(add_prefix_space=flag(), trim_offsets=flag(), use_regex=flag()),
            lambda: pre_tokenizers.ByteLevel(add_prefix_space=flag()),
            pre_tokenizers.Whitespace, pre_tokenizers.WhitespaceSplit,
            lambda: pre_tokenizers.Split(random_pattern(rng, PATTERNS + EMPTY_IN_FRONT), behavior, flag()),
            lambda: pre_tokenizers.Digits(flag()), lambda: pre_tokenizers.Punctuation(behavior),
            pre_tokenizers.UnicodeScripts, pre_tokenizers.BertPreTokenizer,
            lambda: pre_tokenizers.CharDelimiterSplit(rng.choice([" ", "e", "\u2581", "\u0301"])),
            lambda: pre_tokenizers.FixedLength(length=rng.randrange(1, 9)),
            lambda: pre_tokenizers.Sequence([random_pre_tokenizer(rng, depth + 1) for _ in range(rng.randrange(0, 4))])][kind]()


def random_decoder(rng, depth=0):
    if depth == 0 and rng.random() < 0.1:
        return None
    kind = rng.randrange(10 if depth < 2 else 9)
    return [lambda: decoders.Metaspace(rng.choice(["\u2581", "_"]), rng.choice(["always", "first", "never"])),
            decoders.ByteLevel, lambda: decoders.Replace(random_pattern(rng, PATTERNS + EMPTY_IN_FRONT), rng.choice(["", " ", "xy"])),
            lambda: decoders.Strip(rng.choice([" ", "\u2581", "t"]), rng.randrange(0, 2), 0), decoders.Fuse,
            decoders.ByteFallback,
            lambda: decoders.WordPiece(rng.choice(["##", "", "t"]), rng.random() < 0.7),
            lambda: decoders.BPEDecoder(suffix=rng.choice(["</w>", "e"])),
            lambda: decoders.CTC(rng.choice(["<pad>", "a"]), rng.choice(["|", "\u2581", "th"]), rng.random() < 0.7),
            lambda: decoders.Sequence([random_decoder(rng, depth + 1) for _ in range(rng.randrange(0, 4))])][kind]()


def random_post_processor(rng, tokenizer):
    ids = {token: tokenizer.token_to_id(token) for token in SPECIAL}
    flag = lambda: rng.random() < 0.5
    template = lambda: processors.TemplateProcessing(
        single=rng.choice(["<s> $A </s>", "$A", "$A:1 </s>:2", "<s> <s> $A"]),
        pair=rng.choice(["<s> $A </s> $B:1 </s>:1", "$A $B", "$B:1 </s> $A:2"]),
        special_tokens=[(token, ids[token]) for token in ("<s>", "</s>")])
    roberta = lambda: processors.RobertaProcessing(("</s>", ids["</s>"]), ("<s>", ids["<s>"]), trim_offsets=flag(),
                                                   add_prefix_space=flag())
    bert = lambda: processors.BertProcessing(("</s>", ids["</s>"]), ("<s>", ids["<s>"]))
    byte_level = lambda: processors.ByteLevel(add_prefix_space=flag(), trim_offsets=flag())
    return rng.choice([lambda: None, template, roberta, byte_level, bert,
                       lambda: processors.Sequence([bert(), byte_level()]),
                       lambda: processors.Sequence([byte_level(), template()]),
                       lambda: processors.Sequence([template(), byte_level()]),
                       lambda: processors.Sequence([roberta(), byte_level()]),
                       lambda: processors.Sequence([byte_level(), roberta()]),
                       lambda: processors.Sequence([byte_level(), byte_level()])])()


# What must come up, and in how large a part of all tokenizers at least.
KINDS = {"Unigram": 0.2, "Unigram with bytes": 0.04, "BPE": 0.2, "BPE with bytes": 0.04, "BPE with affixes": 0.04,
         "byte-level BPE": 0.04, "WordPiece": 0.1, "WordLevel": 0.04}


def kinds_of(tokenizer):
    document = json.loads(tokenizer.to_str())
    model = document["model"]
    kinds = [model["type"]]
    affixes = model["type"] == "BPE" and (model["continuing_subword_prefix"] or model["end_of_word_suffix"])
    if model.get("byte_fallback"):
        kinds.append(model["type"] + " with bytes")
    if affixes:
        kinds.append("BPE with affixes")
    if model["type"] == "BPE" and not affixes and (document["pre_tokenizer"] or {}).get("type") == "ByteLevel":
        kinds.append("byte-level BPE")
    return kinds


def given(**options):
    """Only those that are not None, which the package does not take."""
    return {name: value for name, value in options.items() if value is not None}


def random_tokenizer(rng, tables, lines):
    flag = lambda share=0.5: rng.random() < share
    byte_fallback = flag(0.3)
    extra = [f"<0x{byte:02X}>" for byte in range(256)] if byte_fallback and flag(0.8) else []
    extra = extra[: rng.choice([256, 256, 200])]
    sample = [rng.choice(lines) for _ in range(200)] + [random_text(rng, [], lines) for _ in range(200)]
    normalizer, pre_tokenizer = random_normalizer(rng, tables), random_pre_tokenizer(rng)
    has_unknown = flag(0.8)
    what = rng.random()
    if what < 0.18:
        prefix = rng.choice(["##", "##", "", "a"])
        tokenizer = Tokenizer(models.WordPiece(
            unk_token="<unk>" if has_unknown else "<nothing>", continuing_subword_prefix=prefix,
            max_input_chars_per_word=rng.choice([5, 20, 100])))
        trainer = trainers.WordPieceTrainer(
            vocab_size=rng.choice([400, 1500]), special_tokens=SPECIAL, show_progress=False,
            continuing_subword_prefix=prefix, limit_alphabet=rng.choice([60, 1000]))
    elif what < 0.26:
        tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>" if has_unknown else "<nothing>"))
        trainer = trainers.WordLevelTrainer(vocab_size=rng.choice([200, 1500]), special_tokens=SPECIAL,
                                            show_progress=False)
    elif what < 0.63:
        if flag(0.3):
            pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=flag(), trim_offsets=flag())
        # Bytes of affixes have no place in the text; the package gives them any.
        affixes = not byte_fallback
        prefix = rng.choice([None, None, "##"]) if affixes else None
        suffix = rng.choice([None, None, "</w>"]) if affixes else None
        tokenizer = Tokenizer(models.BPE(**given(
            unk_token="<unk>" if has_unknown else None, fuse_unk=flag(), byte_fallback=byte_fallback,
            continuing_subword_prefix=prefix, end_of_word_suffix=suffix)))
        trainer = trainers.BpeTrainer(**given(
            vocab_size=rng.choice([400, 700, 1500]), special_tokens=SPECIAL + extra, show_progress=False,
            continuing_subword_prefix=prefix, end_of_word_suffix=suffix,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if flag() else [],
            limit_alphabet=rng.choice([None, 60, 300]), max_token_length=16))
    else:
        tokenizer = Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(vocab_size=rng.choice([400, 900]), special_tokens=SPECIAL + extra, unk_token="<unk>",
                                          show_progress=False)
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.train_from_iterator(sample, trainer)
    document = json.loads(tokenizer.to_str())
    if document["model"]["type"] == "Unigram":
        document["model"]["byte_fallback"] = byte_fallback
        if not has_unknown:
            document["model"]["unk_id"] = None
    elif document["model"]["type"] == "BPE":
        document["model"]["ignore_merges"] = flag(0.3)
        if flag(0.3) and not any(" " in part for merge in document["model"]["merges"] for part in merge):
            document["model"]["merges"] = [" ".join(merge) for merge in document["model"]["merges"]]
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.decoder = random_decoder(rng) or tokenizer.decoder
    tokenizer.post_processor = random_post_processor(rng, tokenizer) or tokenizer.post_processor
    added = []
    for _ in range(rng.randrange(0, 5)):
        content = rng.choice(["<mask>", "<x>", "<X>", "the", "mill race", " a", "\u00e9", "ll", "\u65e5\u672c", "<mask>the", "WHEEL", "''", "\u2581"])
        # One of which the normalizer leaves nothing is found everywhere there, and nowhere here.
        if tokenizer.normalizer is not None and not tokenizer.normalizer.normalize_str(content):
            continue
        added.append(content)
        token = AddedToken(content, single_word=flag(0.3), lstrip=flag(0.4), rstrip=flag(0.4), normalized=flag())
        (tokenizer.add_special_tokens if flag() else tokenizer.add_tokens)([token])
    if flag(0.3):
        tokenizer.enable_truncation(rng.randrange(6, 30), stride=0, strategy=rng.choice(["longest_first", "only_first", "only_second"]),
                                    direction=rng.choice(["left", "right"]))
    if flag(0.2):
        tokenizer.enable_padding(direction=rng.choice(["left", "right"]), pad_id=1, pad_token="<pad>", pad_type_id=rng.randrange(2),
                                 length=rng.choice([None, 10, 40]), pad_to_multiple_of=rng.choice([None, 0, 8]))
    return tokenizer, SPECIAL + added


def byte_spans(text, spans):
    return [[len(text[:begin].encode()), len(text[:end].encode())] for begin, end in spans]


def counts_pieces(tokenizer):
    """Whether the package numbers the pieces of a template as the texts of a pair: with ByteLevel behind one."""
    if tokenizer.post_processor is None:
        return False
    processors_of_sequence = json.loads(tokenizer.post_processor.__getstate__()).get("processors", [])
    return [processor["type"] for processor in processors_of_sequence] == ["TemplateProcessing", "ByteLevel"]


def case(tokenizer, text, pair=None):
    """The line of a text, or nothing when the package refuses it."""
    try:
        encoding = tokenizer.encode(text, pair) if pair is not None else tokenizer.encode(text)
        if pair is None:
            sources = [text if i is not None else None for i in encoding.sequence_ids]
        elif counts_pieces(tokenizer):
            sources = None
        else:
            sources = [None if i is None else (text, pair)[i] for i in encoding.sequence_ids]
        line = {"text": text, "ids": encoding.ids, "tokens": encoding.tokens, "type_ids": encoding.type_ids,
                "special_tokens_mask": encoding.special_tokens_mask, "attention_mask": encoding.attention_mask,
                "offsets": encoding.offsets}
        if sources is not None:
            line["byte_offsets"] = [[0, 0] if source is None else byte_spans(source, [span])[0]
                                    for source, span in zip(sources, encoding.offsets)]
        if pair is None:
            line["ids_no_special"] = tokenizer.encode(text, add_special_tokens=False).ids
        else:
            line["pair"] = pair
        line["decoded"] = tokenizer.decode(encoding.ids)
        line["decoded_with_special"] = tokenizer.decode(encoding.ids, skip_special_tokens=False)
        return line
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return None


def write_cases(folder, tokenizer, added, rng, lines, num_texts):
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    texts = [random_text(rng, added, lines) for _ in range(num_texts)]
    refused = 0
    with open(folder / "encodings.jsonl", "w", encoding="utf-8") as out:
        for text in texts:
            line = case(tokenizer, text)
            refused += line is None
            if line is not None:
                print(json.dumps(line), file=out)
    with open(folder / "pairs.jsonl", "w", encoding="utf-8") as out:
        for text, pair in zip(texts[::5], texts[1::5]):
            line = case(tokenizer, text, pair)
            if line is not None:
                print(json.dumps(line), file=out)
    return texts, refused


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--program", required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--texts", type=int, default=60, help="of each tokenizer")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    lines, tables = corpus_lines(), charsmaps()
    bad = texts_in_all = refused_in_all = too_small = 0
    kinds = collections.Counter()
    for seed in range(options.seed, options.seed + options.count):
        rng = random.Random(seed)
        folder = options.folder / f"seed-{seed}"
        try:
            tokenizer, added = random_tokenizer(rng, tables, lines)
        except Exception as error:
            # A Unigram trainer says so of more characters than its vocabulary may have pieces.
            if "not large enough" not in str(error):
                raise
            too_small += 1
            continue
        kinds.update(kinds_of(tokenizer))
        tokenizer = Tokenizer.from_str(tokenizer.to_str())  # what a file does not say is lost
        texts, refused = write_cases(folder, tokenizer, added, rng, lines, options.texts)
        texts_in_all += len(texts) - refused
        refused_in_all += refused
        if len(texts) == refused:
            shutil.rmtree(folder)
            continue
        written = folder / "written.json"
        result = subprocess.run([options.program, "--dir", folder, "--write", written], capture_output=True, text=True, check=False)
        problem = result.stdout + result.stderr if result.returncode else ""
        if not problem:
            again = Tokenizer.from_file(str(written))
            for text in texts:
                if case(tokenizer, text) != case(again, text):
                    problem = f"what was written gives other tokens for {text!r}"
                    break
            if json.loads(again.to_str()) != json.loads(tokenizer.to_str()):
                problem = "what was written says something else"
        if problem:
            bad += 1
            print(f"seed {seed}: {problem[:1500]}", flush=True)
        else:
            shutil.rmtree(folder)
    made = options.count - too_small
    print(f"{made} tokenizers ({', '.join(f'{kinds[kind]} {kind}' for kind in KINDS)}), {too_small} too small for their "
          f"characters, {texts_in_all} texts, {refused_in_all} refused by the package, {bad} tokenizers differ")
    problems = []
    if options.count >= 100:  # fewer say nothing of shares
        problems = [f"too few of {kind}" for kind, share in KINDS.items() if kinds[kind] < share * options.count]
        if refused_in_all > 0.2 * (texts_in_all + refused_in_all):
            problems.append("the package refuses too many texts")
    for problem in problems:
        print(problem)
    return 1 if bad or problems else 0


if __name__ == "__main__":
    sys.exit(main())
