#!/usr/bin/env python3
"""Writes the folders beside this file with the Python packages tokenizers (0.21.4) and sentencepiece (0.2, for the table
of t5): in each a tokenizer.json and what the package makes of the texts below. Run it again after changing a text or
adding a folder. A layout that the package reads and no longer writes is committed as it was read."""
import base64
import json
import os
import pathlib
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

HERE = os.path.dirname(os.path.abspath(__file__))
SPECIAL = ["[CLS]", "[SEP]", "<unk>", "<pad>", "[MASK]"]

# Scores are chosen so that pieces compete; many characters have no piece of their own.
PIECES = {
    "▁": -2.1, "▁the": -2.5, "▁mill": -4.5, "▁race": -5.0, "▁wheel": -5.5, "▁water": -5.2, "▁tur": -7.0, "ns": -5.1,
    "▁turns": -7.9, "wa": -6.0, "ter": -4.9, "mill": -6.2, "race": -6.1, "s": -3.0, "e": -3.1, "a": -3.2, "t": -3.3,
    "n": -3.4, "i": -3.5, "o": -3.6, "r": -3.7, "l": -3.9, "w": -5.6, "h": -4.1, "m": -4.8, "c": -4.6, "u": -4.7,
    ".": -3.8, ",": -3.9, '"': -5.8, "-": -6.3, "é": -8.0, "▁é": -8.5, "日": -9.0, "日本": -9.5, "▁\U0001f30a": -9.9,
    "in": -4.4, "ing": -4.6, "▁a": -3.9, "▁i": -4.3, "▁in": -4.0, "\n": -6.6, "aa": -6.4, "aaa": -9.6, "[": -8.8,
}

TEXTS = [
    "", " ", "   ", "the", " the mill race", "The mill race turns the wheel.", "the water in the mill race",
    "water  and  wheels", "trailing space ", "\n", "\ttab\tand\nline", "a\r\nb", "``quoted'' water", "''''", "'''",
    "``''`", "▁", "▁▁the", "a▁the", "aaaaaaa", "aaaa aaa", "xyz", "the xyz mill", "xx yy zz", "é", "caf\u00e9 e\u0301",
    "日本", "日本語の水", "水車", "\U0001f30a wave", "\U0001f30a\U0001f30a", "the\u00a0mill", "\u3000the", "zero\u200bwidth",
    "[MASK]", "the [MASK] turns", "the[MASK]wheel", "[MASK][MASK]", "[MASK", "[[MASK]]", "[CLS] the [SEP]", "<unk>",
    "<unk> the <unk>x", "<pad>", "water<mark>mill", "water <mark> mill", "water   <mark>   mill", " <mark>",
    "<mark>\u00a0\u2003 the", "<mark><mark>", "a \n<mark>\n\n b", "the [quote] mill", "the ``q'' mill", "``q''",
    "x``q''x", "the MILL", "wheel" * 40, "the " * 60, "\U0010ffff", "mill-race, water-wheel; \"turning\"", "waterwater",
    "é" * 9 + "the", "water日本wheel", "q" * 30,
]

# For the layouts of published models: all scripts, marks in any order, line ends, controls, contractions, numbers.
MORE_TEXTS = [text for text in TEXTS if "q" not in text][:31] + [
    "The wheel's turning; it'll stop, they've said we're late, I'm not, you'd know, don't!", "'tis 'S 'T 'Ll ''s",
    "cafe\u0301 na\u00efve \u00c5ngstr\u00f6m \u212b", "a\u0323\u0301 a\u0301\u0323 \u1ea4\u0323", "\u1100\u1161\u11a8 \ud55c\uad6d",
    "\uff21\uff22\uff23 \ufb01ne \u2460 \u00bd x\u00b2 \u2167", "\u0130stanbul \u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03a3 \u1e9e STRASSE",
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u0661\u0662\u0663", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1eb\U0001f1f7 1\ufe0f\u20e3", "one\r\ntwo\rthree\n\nfour\u2028five\u0085six",
    "  two  spaces   three    four  ", "tab\t\ttabs \t mixed", "\u00a0\u2003thin\u2009spaces\u3000wide", "soft\u00adhyphen \ufeffbom\u200bzero",
    "\x00nul\x01\x1f\x7f controls", "1234567890 1,000.50 3.14e-10 0x7f", "a_b-c/d\\e@f#g$h%i^j&k*l", "<extra_id_0> and <extra_id_1>",
    "water<extra_id_1>wheel <extra_id_9>", "a <mask>, b  <mask>  c<mask>", "\n\t <mask> \u3000<mask>", "<s>the</s> mill</s></s>",
    "\u2581the\u2581 mill \u2581\u2581", "\u0120the \u010a mill", "e\u0301e\u0301e\u0301", "\u0301 alone", "\u1e9b\u0323 \u0344",
    "the mill race turns the wheel of stone " * 3, "MILL Race WHEEL", "race-race--race---race", "<0x41> <0xE6>", "x" * 80,
]


def with_unigram(pieces):
    return Tokenizer(models.Unigram([(p, s) for p, s in pieces], unk_id=2, byte_fallback=False))


def mlm():
    """The layout of train_unigram."""
    tokenizer = with_unigram([(token, 0.0) for token in SPECIAL] + list(PIECES.items()))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Replace("``", '"'), normalizers.Replace("''", '"')])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 0), ("[SEP]", 1)])
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def added_tokens():
    """Tokens beside the model's, which take white space or are looked for in normalised text; a prefix at the beginning
    only; no template."""
    tokenizer = with_unigram([(token, 0.0) for token in SPECIAL] + list(PIECES.items()))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.Replace("\t", "")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_special_tokens([AddedToken("<mark>", lstrip=True, rstrip=True, normalized=False)])
    tokenizer.add_tokens([AddedToken("water<mark>", normalized=False), AddedToken("``q''", normalized=True),
                          AddedToken("zz", normalized=True, lstrip=True)])
    return tokenizer


def bare():
    """Nothing in front of words, words that span spaces, another replacement, a template that turns the pair around, no
    decoder."""
    pieces = {piece.replace("▁", "_"): score for piece, score in PIECES.items()}
    pieces.update({"_the_mill": -6.0, "e_w": -8.0})
    tokenizer = with_unigram([(token, 0.0) for token in SPECIAL] + list(pieces.items()))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="_", prepend_scheme="never", split=False)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A:3 [SEP]:2", pair="$B:1 [SEP]:2 $A:0", special_tokens=[("[SEP]", 1)])
    return tokenizer


def roberta():
    """The layout of roberta-base: byte-level BPE, its special tokens, a mask that takes the white space before it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True)
    tokenizer.train_from_iterator(TEXTS + MORE_TEXTS, trainers.BpeTrainer(
        vocab_size=420, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    document = json.loads(tokenizer.to_str())
    # As the published file has them.
    document["model"]["merges"] = [" ".join(merge) for merge in document["model"]["merges"]]
    for component in ("pre_tokenizer", "decoder"):
        del document[component]["use_regex"]
    return Tokenizer.from_str(json.dumps(document))


def small_charsmap():
    """The table of a sentencepiece normalizer with rules of our own: the published ones have 240 KB."""
    rules = {"\t": " ", "\n": " ", "\r": " ", "\r\n": " ", "\u00a0": " ", "\u2003": " ", "\u3000": " ", "\x01": "", "\u200b": "",
             "\u00bd": "1\u20442", "\ufb01": "fi", "\u2460": "1", "e\u0301": "\u00e9", "a\u0323\u0301": "\u1ead", "\u212b": "\u00c5",
             "\u0301": "'", "\u2167": "VIII", "x": "ks"}
    rules.update({chr(0xff21 + i): chr(0x41 + i) for i in range(26)})
    with tempfile.TemporaryDirectory() as folder:
        table, text = pathlib.Path(folder, "rules.tsv"), pathlib.Path(folder, "text")
        hexadecimal = lambda string: " ".join(f"{ord(character):X}" for character in string)
        table.write_text("".join(f"{hexadecimal(before)}\t{hexadecimal(after)}\n" for before, after in rules.items()))
        text.write_text("the mill race turns a wheel\n" * 20, encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            input=str(text), model_prefix=os.path.join(folder, "m"), vocab_size=30, hard_vocab_limit=False, minloglevel=2,
            normalization_rule_tsv=str(table))
        model = sentencepiece_model_pb2.ModelProto()
        model.ParseFromString(pathlib.Path(folder, "m.model").read_bytes())
        return base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()


def t5():
    """The layout of t5-base: the normalizer of a sentencepiece model, Unigram, a hundred added tokens (here ten) behind."""
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + list(PIECES.items())
    pieces += [(f"<extra_id_{i}>", 0.0) for i in range(9, -1, -1)]
    tokenizer = with_unigram(pieces)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single=["$A", "</s>"], pair=["$A", "</s>", "$B", "</s>"], special_tokens=[("</s>", 1)])
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"] + [f"<extra_id_{i}>" for i in range(9, -1, -1)])
    document = json.loads(tokenizer.to_str())
    document["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Precompiled", "precompiled_charsmap": small_charsmap()},
        {"type": "Strip", "strip_left": False, "strip_right": True},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"}]}
    return Tokenizer.from_str(json.dumps(document))


def bpe():
    """What the others do not have: normal forms, words between white space, unknown characters as bytes, a sequence of
    each kind, tokens that are whole words, encodings that are cut and padded."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.NFKD(), normalizers.Lowercase(), normalizers.Strip(), normalizers.NFC(),
        normalizers.Replace(Regex(r"\d+"), "#")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Whitespace(), pre_tokenizers.Metaspace(prepend_scheme="first")])
    fallback = [f"<0x{byte:02X}>" for byte in range(256) if byte != 0xe6]
    tokenizer.train_from_iterator(TEXTS + MORE_TEXTS, trainers.BpeTrainer(
        vocab_size=420, special_tokens=["<s>", "</s>", "<unk>"] + fallback, limit_alphabet=40, show_progress=False))
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = [token for token in document["added_tokens"] if not token["content"].startswith("<0x")]
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.add_tokens([AddedToken("race", single_word=True, normalized=True), AddedToken("turn", single_word=True)])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1",
                                      special_tokens=[("<s>", 0), ("</s>", 1)])])
    tokenizer.enable_truncation(24, strategy="longest_first", direction="left")
    tokenizer.enable_padding(length=8, pad_to_multiple_of=4, pad_id=2, pad_token="<unk>", pad_type_id=1)
    return tokenizer


def bert():
    """The layout of bert-base-uncased, with a word length that a text exceeds."""
    # The package's trainer makes another vocabulary each time.
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(code) for code in range(0x21, 0x7f) if not chr(code).isupper()]
    letters += list("\u6c34\u65e5\u672c\u05e9\u05dc\u05d5\u05dd\u03c3\u1112\u1161\u11ab")
    words = ["the", "mill", "race", "water", "wheel", "turn", "stone", "of", "mask", "cafe", "na", "12", "extra"]
    ends = ["er", "ing", "s", "ll", "race", "wheel", "34", "ive", "ver", "t", "_"]
    pieces = special + letters + words + ["##" + letter for letter in letters if letter.isalnum()]
    pieces += [f"##{end}" for end in ends if f"##{end}" not in pieces]
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]",
                                           max_input_chars_per_word=20))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(special)
    tokenizer.add_tokens([AddedToken("<Mask>", lstrip=True, normalized=True)])
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def word_level():
    """Whole words, cut by numbers and by a pattern, between the special tokens of BERT."""
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Nmt(), normalizers.NFD(), normalizers.StripAccents(), normalizers.Prepend(" ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r" ?\p{L}+"), "isolated"), pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.train_from_iterator(TEXTS + MORE_TEXTS, trainers.WordLevelTrainer(
        vocab_size=150, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.Sequence([
        processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1)), processors.ByteLevel(trim_offsets=True)])
    return tokenizer


def without_types(document):
    """The model of a file of the package before 0.9."""
    model = document["model"]
    for name in ("type", "byte_fallback", "ignore_merges"):
        model.pop(name, None)
    return json.dumps(document, ensure_ascii=False)


def roberta_as_published():
    """roberta-base as it lies on the Hub: no type of the model, affixes that are empty, merges as strings, no options that
    came later, truncation without a direction. gpt2 is the same with other components around it."""
    document = json.loads(roberta().to_str())
    document["model"].update({
        "continuing_subword_prefix": "", "end_of_word_suffix": "", "fuse_unk": False,
        "merges": [" ".join(merge) for merge in document["model"]["merges"]]})
    for component in ("pre_tokenizer", "decoder"):
        del document[component]["use_regex"]
    document["truncation"] = {"max_length": 48, "strategy": "LongestFirst", "stride": 0}
    return without_types(document)


def t5_as_published():
    """t5-small as it lies on the Hub: no type of the model, the white space and the space's mark one after the other, both
    with the options of their time."""
    document = json.loads(t5().to_str())
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "str_rep": "\u2581", "add_prefix_space": True}
    document["normalizer"] = document["normalizer"]["normalizers"][0]
    document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]}
    document["decoder"] = metaspace
    return without_types(document)


def byte_spans(text, spans):
    return [[len(text[:begin].encode()), len(text[:end].encode())] for begin, end in spans]


def main():
    assert len(TEXTS) == len(MORE_TEXTS) == 64
    for make in (mlm, added_tokens, bare, roberta, t5, bpe, bert, word_level, roberta_as_published,
                 t5_as_published):
        texts = TEXTS if make in (mlm, added_tokens, bare) else MORE_TEXTS
        made = make()
        published = isinstance(made, str)
        tokenizer = Tokenizer.from_str(made if published else made.to_str())
        folder = os.path.join(HERE, make.__name__)
        os.makedirs(folder, exist_ok=True)
        file = pathlib.Path(folder, "tokenizer.json")
        if published:
            file.write_text(made, encoding="utf-8")
        else:
            tokenizer.save(str(file))
        with open(os.path.join(folder, "encodings.jsonl"), "w") as out:
            for text in texts:
                encoding = tokenizer.encode(text)
                print(json.dumps({
                    "text": text, "ids": encoding.ids, "tokens": encoding.tokens, "type_ids": encoding.type_ids,
                    "special_tokens_mask": encoding.special_tokens_mask,
                    "attention_mask": encoding.attention_mask, "offsets": encoding.offsets,
                    "byte_offsets": byte_spans(text, encoding.offsets),
                    "ids_no_special": tokenizer.encode(text, add_special_tokens=False).ids,
                    "decoded": tokenizer.decode(encoding.ids),
                    "decoded_with_special": tokenizer.decode(encoding.ids, skip_special_tokens=False)}), file=out)
        with open(os.path.join(folder, "pairs.jsonl"), "w") as out:
            for text, pair in zip(texts[::3], texts[1::2]):
                encoding = tokenizer.encode(text, pair)
                sources = [None if sequence is None else (text, pair)[sequence] for sequence in encoding.sequence_ids]
                print(json.dumps({
                    "text": text, "pair": pair, "ids": encoding.ids, "tokens": encoding.tokens,
                    "type_ids": encoding.type_ids, "special_tokens_mask": encoding.special_tokens_mask,
                    "attention_mask": encoding.attention_mask, "offsets": encoding.offsets,
                    "byte_offsets": [[0, 0] if source is None else byte_spans(source, [span])[0]
                                     for source, span in zip(sources, encoding.offsets)],
                    "decoded": tokenizer.decode(encoding.ids),
                    "decoded_with_special": tokenizer.decode(encoding.ids, skip_special_tokens=False)}), file=out)


if __name__ == "__main__":
    main()
