#!/usr/bin/env python3
"""Compares a model that train_mlm saved with what Python's transformers makes of it.

A development check: needs transformers, torch and safetensors from PyPI, in an environment of their own. It checks that
AutoModelForMaskedLM loads the folder with no missing and no unexpected key, that fill_mask and PreTrainedTokenizerFast
give the same ids for many lines, the same logits (within 1e-4) for a few, and the same five best candidates.

  check_with_transformers.py --fill-mask build/mlm/examples/mlm/fill_mask --model OUT/model --text FILE
"""
import argparse
import json
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM, PreTrainedTokenizerFast, pipeline

NUM_LINES = 400
NUM_LOGITS = 8
MOST_CHARACTERS = 160  # of a line; its tokens must fit the model


def fill_mask(program, model, texts, logits=None):
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="\n", suffix=".txt") as file:
        file.write("\n".join(texts) + "\n")
        file.flush()
        command = [program, "--model", model, "--json", "--text-file", file.name]
        if logits:
            command += ["--logits", logits]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def need(holds, *evidence):
    if not holds:
        sys.exit("not the same: " + " ".join(map(str, evidence)))


def masked(line, i):
    """A [MASK] in place of a word, at another place in each line."""
    words = line.split(" ")
    words[i % len(words)] = "[MASK]"
    return " ".join(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fill-mask", required=True, help="the program")
    parser.add_argument("--model", required=True, help="OUT/model")
    parser.add_argument("--text", required=True, help="a text file with at least %d lines that are not blank" % NUM_LINES)
    arguments = parser.parse_args()

    with open(arguments.text, encoding="utf-8", errors="replace") as file:
        lines = [line for line in (line.strip("\r\n") for line in file) if line.strip()]
    if len(lines) < NUM_LINES:
        sys.exit(f"{arguments.text} has {len(lines)} lines that are not blank, {NUM_LINES} are needed")
    stride = len(lines) // NUM_LINES
    texts = [masked(line[:MOST_CHARACTERS], i) for i, line in enumerate(lines[::stride][:NUM_LINES])]

    model, loading = AutoModelForMaskedLM.from_pretrained(arguments.model, output_loading_info=True)
    problems = {name: keys for name, keys in loading.items() if keys}
    need(not problems, problems)
    model.eval()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(arguments.model)
    print("loaded: no missing, no unexpected key")

    ours = fill_mask(arguments.fill_mask, arguments.model, texts)
    for text, one in zip(texts, ours, strict=True):
        theirs = tokenizer(text)["input_ids"]
        need(one["ids"] == theirs, text, one["ids"], theirs)
    print(f"token ids equal for {len(texts)} lines")

    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        fill_mask(arguments.fill_mask, arguments.model, texts[:NUM_LOGITS], file.name)
        our_logits = load_file(file.name)
    largest = 0.0
    for i, text in enumerate(texts[:NUM_LOGITS]):
        with torch.no_grad():
            theirs = model(**tokenizer(text, return_tensors="pt", return_token_type_ids=False)).logits[0]
        need(our_logits[str(i)].shape == theirs.shape, text)
        largest = max(largest, (our_logits[str(i)] - theirs).abs().max().item())
    need(largest < 1e-4, "logits differ by", largest)
    print(f"logits of {NUM_LOGITS} texts differ by at most {largest:.2e}")

    fill = pipeline("fill-mask", model=model, tokenizer=tokenizer, top_k=5,
                    tokenizer_kwargs={"return_token_type_ids": False})
    for text, one in zip(texts[:NUM_LOGITS], ours):
        theirs = fill(text)
        our_best = one["masks"][0]
        for name in ("token", "token_str", "sequence"):
            need([c[name] for c in our_best] == [c[name] for c in theirs], text, our_best, theirs)
        need(all(abs(a["score"] - b["score"]) < 1e-5 for a, b in zip(our_best, theirs)), our_best, theirs)
    print(f"the five best candidates of {NUM_LOGITS} texts are the same")


if __name__ == "__main__":
    main()
