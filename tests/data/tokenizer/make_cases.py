#!/usr/bin/env python3
"""Writes the folders beside this file with the Python package tokenizers (0.21.4): in each a tokenizer.json and what the
package makes of the texts below. Run it again after changing a text or adding a folder."""
import json
import os

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

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


def byte_spans(text, spans):
    return [[len(text[:begin].encode()), len(text[:end].encode())] for begin, end in spans]


def main():
    for make in (mlm, added_tokens, bare):
        tokenizer = make()
        folder = os.path.join(HERE, make.__name__)
        os.makedirs(folder, exist_ok=True)
        tokenizer.save(os.path.join(folder, "tokenizer.json"))
        with open(os.path.join(folder, "encodings.jsonl"), "w") as out:
            for text in TEXTS:
                encoding = tokenizer.encode(text)
                print(json.dumps({
                    "text": text, "ids": encoding.ids, "tokens": encoding.tokens, "type_ids": encoding.type_ids,
                    "special_tokens_mask": encoding.special_tokens_mask, "offsets": encoding.offsets,
                    "byte_offsets": byte_spans(text, encoding.offsets),
                    "ids_no_special": tokenizer.encode(text, add_special_tokens=False).ids,
                    "decoded": tokenizer.decode(encoding.ids),
                    "decoded_with_special": tokenizer.decode(encoding.ids, skip_special_tokens=False)}), file=out)
        with open(os.path.join(folder, "pairs.jsonl"), "w") as out:
            for text, pair in zip(TEXTS[::3], TEXTS[1::2]):
                encoding = tokenizer.encode(text, pair)
                sources = [None if sequence is None else (text, pair)[sequence] for sequence in encoding.sequence_ids]
                print(json.dumps({
                    "text": text, "pair": pair, "ids": encoding.ids, "tokens": encoding.tokens,
                    "type_ids": encoding.type_ids, "special_tokens_mask": encoding.special_tokens_mask,
                    "offsets": encoding.offsets,
                    "byte_offsets": [[0, 0] if source is None else byte_spans(source, [span])[0]
                                     for source, span in zip(sources, encoding.offsets)],
                    "decoded": tokenizer.decode(encoding.ids),
                    "decoded_with_special": tokenizer.decode(encoding.ids, skip_special_tokens=False)}), file=out)


if __name__ == "__main__":
    main()
