#!/usr/bin/env python3
"""What the Python package makes of texts with one component alone: components/*.jsonl beside this file, for
tests/tokenizer/components_test.cc.

A line is a component, a text and the words that it becomes, each with its place in bytes of the text; the words of a
normalizer are its characters. Of a decoder it is tokens and the text that they become. Of added tokens, several of one
text or of texts that the normalizer makes alike, it is a text, its ids, the tokens and the text of the ids without
special tokens. Needs `pip install tokenizers==0.21.4`.
"""
import itertools
import json
import os
import pathlib

from tokenizers import PreTokenizedString, Tokenizer, decoders, models, pre_tokenizers

HERE = pathlib.Path(os.path.dirname(os.path.abspath(__file__)))

TEXTS = [
    " ", "Hey friend!     How are you?!?", "  the mill-race, 123 wheels (45,6) ", "a",
    "\u6c34\u8eca the \u91ce\u53e3\u91cc\u4f73 Rika",
    "na\u00efve cafe\u0301 \u00c5ngstr\u00f6m \u1ead a\u0323\u0302 \u0130stanbul \u03a3\u038a\u03a3",
    "e\u0304\u0304\u0304o\u0301", "tab\tnew\nline\r\nnul\x00one\x01del\x7fc1\x8f\x9fnel\x85",
    "zero\u200bwidth\u200d\ufeffbom\u2028sep\u2581mark\ufffd\u00ad\u3000wide\u1680",
    "\u3069\u3053\u3067\u751f\u308c\u3002Yes \u30b0\u30fc\u30eb 0\u0661\u0966\u2167\u00bd\u2460",
    "Apples are \u308a\u3093\u3054 \u6797\u6a8e",
    "\u0e33\u0e19\u0e49\u0e333\u0e25\u0e33 \u0928\u092e\u0938\u094d\u0924\u0947",
    "\U0001f923 \U0001f970\U0001f468\u200d\U0001f469 \U0001f1eb\U0001f1f7 \u00a9\u20ac$+<=>^`|~",
    "\u00ab\u00a1hola!\u00bb \u2014 \u201cq\u201d \u3001\u3002\uff01",
    # What the package's older tables of Unicode have otherwise than later ones.
    "\u08e2\u1734\u1885\ua9bd\u1cf2\u0589\u061c\u0953\u166d \U000111c9 \u0afa\u1ac0\u0c77\u2e43 \u4dbf\u9fff\U0002b820"
    "\U0002b920",
    "a--b-c--", "--", "xx yxxx",
]
SHORT_TEXTS = [" ", "How are--you?", "a--b-c--", "--", "\u00e9xx yxxx  "]  # for the many forms of Split


def flags(count):
    return itertools.product([False, True], repeat=count)


def normalizers():
    for clean, chinese, lowercase in flags(3):
        for strip in (None, False, True):
            if [clean, chinese, lowercase].count(False) < 2:
                yield {"type": "BertNormalizer", "clean_text": clean, "handle_chinese_chars": chinese,
                       "strip_accents": strip, "lowercase": lowercase}
    for name in ("ByteLevel", "Nmt", "StripAccents"):
        yield {"type": name}
    for text in ("\u2581", "ab"):
        yield {"type": "Prepend", "prepend": text}
    yield {"type": "Sequence", "normalizers": [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"},
                                               {"type": "Prepend", "prepend": "_"}, {"type": "Nmt"}]}


BEHAVIORS = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
LLAMA_3 = ("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
           "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")


def pre_tokenizers_of_all_kinds():
    patterns = [{"String": "-"}, {"String": " "}, {"String": ""}, {"Regex": "x*"}, {"Regex": "\\b"},
                {"Regex": "\\w+|[^\\w\\s]+"}]
    for behavior in BEHAVIORS:
        yield {"type": "Punctuation", "behavior": behavior}
        for invert in (False, True):
            for pattern in patterns:
                yield {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}
    yield {"type": "Split", "pattern": {"Regex": LLAMA_3}, "behavior": "Isolated", "invert": False}
    for name in ("BertPreTokenizer", "UnicodeScripts", "Punctuation", "FixedLength"):
        yield {"type": name}
    for individual in (False, True):
        yield {"type": "Digits", "individual_digits": individual}
    for delimiter in ("-", " ", "\u6c34"):
        yield {"type": "CharDelimiterSplit", "delimiter": delimiter}
    for length in (1, 3):
        yield {"type": "FixedLength", "length": length}
    space = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithNext", "invert": False}
    dash = {"type": "CharDelimiterSplit", "delimiter": "-"}
    yield {"type": "Sequence", "pretokenizers": [space, {"type": "Digits", "individual_digits": True}]}
    yield {"type": "Sequence", "pretokenizers": [dash, space, {"type": "FixedLength", "length": 2},
                                                 {"type": "UnicodeScripts"}]}
    yield {"type": "Sequence", "pretokenizers": [{"type": "UnicodeScripts"}, {"type": "BertPreTokenizer"}, dash]}


def decoders_of_all_kinds():
    words = [["##uelo", "Ara", "##\u00faj", "##o", "No", "##guera"],
             ["do", "not", "##do not", "it", "'s", "we", "'re", "n't", "I", "'m", "."],
             ["a .", "b ?", "##c !", "##d ,", "e ' f", "do n't", "I 'm", "x do not", "it 's", "I 've", "we 're",
              "we 'll", " . . ,"],
             [], [""], ["a"], ["##", "##", "a##b"]]
    for prefix in ("##", ""):
        for cleanup in (False, True):
            yield {"type": "WordPiece", "prefix": prefix, "cleanup": cleanup}, words
    ends = [["a</w>", "b", "c</w>", "d</w>"], ["a</w>"], ["a</w>b</w>", "c"], [], ["", "\u00e9x", ""]]
    for suffix in ("</w>", "x", ""):
        yield {"type": "BPEDecoder", "suffix": suffix}, ends
    sounds = ["<pad> <pad> h e e l l <pad> l o o o <pad>", "a a | | b n't . <pad> | , <pad>x x<pad> <pad>", "",
              "| | <pad> |"]
    for pad in ("<pad>", "x", ""):
        for delimiter in ("|", "<pad>", ""):
            for cleanup in (False, True):
                yield ({"type": "CTC", "pad_token": pad, "word_delimiter_token": delimiter, "cleanup": cleanup},
                       [line.split(" ") for line in sounds])
    pieces = [["<0xE6>", "<0x97>", "<0xa5>", "x", "<0xE6>", "<0x97>", "y", "<0x41>", "<0xFF>"],
              ["<0x+A>", "<0x-1>", "<0x1>"], ["<0xGG>", "<0x041>", "0x41", " <0x41>", "<0x41> ", "<0x++>", "<0x+>"], ["<0xF0>", "<0x9F>"], [], [""]]
    yield {"type": "ByteFallback"}, pieces
    yield {"type": "Fuse"}, pieces
    for start, stop in ((0, 0), (1, 0), (0, 1), (2, 2)):
        yield ({"type": "Strip", "content": "\u00e9", "start": start, "stop": stop},
               [["\u00e9\u00e9\u00e9a\u00e9\u00e9\u00e9", "a", "b\u00e9", "\u00e9c d\u00e9"], []])
    yield ({"type": "Sequence", "decoders": [{"type": "WordPiece", "prefix": "##", "cleanup": True}, {"type": "Fuse"},
                                             {"type": "BPEDecoder", "suffix": "o"}]}, words)


def loaded(place, component):
    document = json.loads(Tokenizer(models.BPE()).to_str())
    document[place] = component
    return Tokenizer.from_str(json.dumps(document))


def words_of(component, place, text):
    tokenizer = loaded(place, component)
    pieces = PreTokenizedString(text)
    if place == "normalizer":
        pieces.normalize(tokenizer.normalizer.normalize)
        pre_tokenizers.FixedLength(1).pre_tokenize(pieces)
    else:
        tokenizer.pre_tokenizer.pre_tokenize(pieces)
    return [[word, *span] for word, span, _ in pieces.get_splits("original", "byte")]


VOCABULARY = ["<unk>", *" abfox<>", "foo"]
KINDS = [{}, {"special": True}, {"normalized": True}, {"special": True, "normalized": True}, {"lstrip": True},
         {"rstrip": True}, {"single_word": True}]
ADDED_TEXTS = ["Foo b", "a foo xFoo  b", "<FOO> <foo>Foo"]


def added_token(number, content, **flags):
    return {"id": number, "content": content, **flags}


def added_tokens_that_clash():
    """Pairs that clash, the id of the second as a file may have it, and another token after them."""
    after = len(VOCABULARY)
    for first, second in itertools.product(KINDS, KINDS):
        yield [added_token(after, "Foo", **first), added_token(after + 1, "Foo", **second),
               added_token(after + 1, "<Foo>", normalized=True)]
    for first, second in itertools.product(KINDS, KINDS):
        yield [added_token(after, "FOO", **{**first, "normalized": True}),
               added_token(after + 1, "Foo", **{**second, "normalized": True})]
    foo = VOCABULARY.index("foo")
    for first, second in itertools.product(KINDS[:5], KINDS[:3]):
        yield [added_token(foo, "foo", **first), added_token(foo, "foo", **second), added_token(after, "x ")]
    for kinds in itertools.product(KINDS[:3], KINDS[3:5], KINDS[:3]):
        yield [added_token(after, "Foo", **kind) for kind in kinds]
        yield [added_token(after, "foo ", **kinds[0]), added_token(after + 1, "Foo ", **kinds[1]),
               added_token(foo, "foo", **kinds[2])]


def with_added_tokens(tokens):
    document = json.loads(Tokenizer(models.BPE()).to_str())
    document["model"].update(vocab={token: number for number, token in enumerate(VOCABULARY)}, unk_token="<unk>")
    document["normalizer"] = {"type": "Lowercase"}
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    document["added_tokens"] = [{**dict.fromkeys(flags, False), **token} for token in tokens]
    return Tokenizer.from_str(json.dumps(document))


def encoded(tokenizer, text):
    encoding = tokenizer.encode(text)
    return [text, encoding.ids, encoding.tokens, tokenizer.decode(encoding.ids)]


def print_line(component, cases, out):
    print(json.dumps({"component": component, "cases": cases}, ensure_ascii=False, separators=(",", ":")), file=out)


def main():
    folder = HERE / "components"
    folder.mkdir(exist_ok=True)
    for place, components in (("normalizer", normalizers()), ("pre_tokenizer", pre_tokenizers_of_all_kinds())):
        with open(folder / f"{place}s.jsonl", "w", encoding="utf-8") as out:
            for component in components:
                texts = SHORT_TEXTS if "invert" in component and component["pattern"] != {"Regex": LLAMA_3} else TEXTS
                cases = [[text, words_of(component, place, text)] for text in texts]
                print_line(component, cases, out)
    with open(folder / "decoders.jsonl", "w", encoding="utf-8") as out:
        for component, all_tokens in decoders_of_all_kinds():
            decoder = loaded("decoder", component).decoder
            cases = [[tokens, decoder.decode(tokens)] for tokens in all_tokens]
            print_line(component, cases, out)
    with open(folder / "added_tokens.jsonl", "w", encoding="utf-8") as out:
        for tokens in added_tokens_that_clash():
            tokenizer = with_added_tokens(tokens)
            component = {"vocabulary": VOCABULARY, "normalizer": {"type": "Lowercase"}, "added_tokens": tokens}
            print_line(component, [encoded(tokenizer, text) for text in ADDED_TEXTS], out)


if __name__ == "__main__":
    main()
