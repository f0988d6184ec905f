"""Trains the same masked language model with PyTorch and with train_mlm --synthetic, in turns, and prints the ratio.

usage: pytorch.py TRAIN_MLM LAYERS HIDDEN VOCABULARY LENGTH BATCH [--every-row] [--rounds N] [--steps N]

Needs torch and transformers (PyTorch 2.6 and transformers 4.49 are what the documented figures are of). By default
PyTorch's LM head runs on the masked rows only, as ours does; --every-row leaves it as its users run it. Both have
dropout 0.1, both get the cores that this process may use. PyTorch's first step is not timed; ours is, with the start of
its input, so the ratio is rather too low.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time


def pytorch(arguments):
    import torch
    from transformers import RobertaConfig, RobertaForMaskedLM

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(1)
    model = RobertaForMaskedLM(RobertaConfig(
        vocab_size=arguments.vocabulary, hidden_size=arguments.hidden, num_hidden_layers=arguments.layers,
        num_attention_heads=max(1, arguments.hidden // 64), intermediate_size=4 * arguments.hidden,
        max_position_embeddings=arguments.length + 4))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    ids = torch.randint(5, arguments.vocabulary, (arguments.batch, arguments.length))
    masked = torch.rand(ids.shape) < 0.15
    labels = torch.where(masked, ids, -100)
    mask = torch.ones_like(ids)

    def step():
        optimizer.zero_grad()
        if arguments.every_row:
            loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        else:
            hidden = model.roberta(input_ids=ids, attention_mask=mask).last_hidden_state
            loss = torch.nn.functional.cross_entropy(model.lm_head(hidden[masked]), labels[masked])
        loss.backward()
        optimizer.step()
        return loss.item()

    step()
    begin = time.perf_counter()
    for _ in range(arguments.steps):
        step()
    seconds = time.perf_counter() - begin
    return {"tokens_per_s": arguments.steps * ids.numel() / seconds,
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("train_mlm")
    for name in ("layers", "hidden", "vocabulary", "length", "batch"):
        parser.add_argument(name, type=int)
    parser.add_argument("--every-row", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        print(json.dumps(pytorch(arguments)))
        return
    rounds = []
    for _ in range(arguments.rounds):
        ours = json.loads(subprocess.run(
            [arguments.train_mlm, "--synthetic", "--layers", str(arguments.layers), "--hidden", str(arguments.hidden),
             "--vocab-size", str(arguments.vocabulary), "--max-length", str(arguments.length), "--global-batch",
             str(arguments.batch), "--warmup-steps", "0", "--steps", str(arguments.steps + 1), "--json"],
            check=True, capture_output=True, text=True).stdout)
        peer = json.loads(subprocess.run([sys.executable] + sys.argv + ["--peer"], check=True, capture_output=True,
                                         text=True).stdout)
        rounds.append((ours["tokens_per_s"] / peer["tokens_per_s"], ours, peer))
        print("Millrace %.0f tokens/s, %.0f MB; PyTorch %.0f tokens/s, %.0f MB; %.2f times" % (
            ours["tokens_per_s"], ours["peak_rss_mb"], peer["tokens_per_s"], peer["peak_rss_mb"], rounds[-1][0]))
    print("median of %d rounds: %.2f times" % (len(rounds), statistics.median(ratio for ratio, _, _ in rounds)))


main()
