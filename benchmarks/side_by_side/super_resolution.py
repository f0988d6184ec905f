#!/usr/bin/env python3
"""Compares the trainings of examples/super_resolution with the same ones in PyTorch, both phases of them.

usage: benchmarks/side_by_side/super_resolution.py WORKDIR --shards DIR [options]; see --help

Both sides start from the weights that ours has at step 0 and take the pairs of images as they are, in the order of the
shards of prepare_super_resolution, batch after batch. Parts:

  losses  20 steps: the losses, step by step
  psnr    a training by the pixels: the PSNR of the held-out crops at its end
  speed   images of a second and peak memory, in turns; of PyTorch the fastest form (eager, channels last, compiled)
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent))
from measured_run import run, say  # noqa: E402

PACKAGES = ["torch", "safetensors", "numpy", "protobuf"]
NEVER = 1_000_000  # steps
PHASES = {"pixels": {"absolute": 1.0, "perceptual": 0.0, "adversarial": 0.0},
          "gan": {"absolute": 1e-2, "perceptual": 1.0, "adversarial": 5e-3}}
RATE = 2e-4
LOSS_STEPS, LOSS_BAR = 20, 1e-3
PSNR_BAR = 0.1
UNTIMED_STEPS, TIMED_STEPS, ROUNDS = 4, 12, 3
FORMS = ("eager", "channels_last", "compiled")
PARTS = ("losses", "psnr", "speed")


class Comparison:
    def __init__(self, options):
        self.options = options
        self.work = options.workdir
        self.program = (options.build or ROOT / "build" / "super_resolution") / "examples" / "super_resolution"
        self.crop = json.loads((options.shards / "statistics.json").read_text("utf-8"))["crop"]

    def ours(self, name, phase, steps, rate=RATE, report_every=1, replicas=None):
        """The folder of the run, and its summary."""
        out = self.work / name
        words = [self.program / "train_super_resolution", "--out", out, "--overwrite", "--json", "--shards",
                 self.options.shards, "--global-batch", self.options.batch, "--replicas",
                 replicas or self.options.replicas,
                 "--blocks", self.options.blocks, "--steps", steps, "--learning-rate", rate, "--end-rate", rate,
                 "--warmup-steps", 0, "--no-augment", "--shuffle", 1, "--threads", self.threads(), "--report-every",
                 report_every, "--evaluate-every", NEVER, "--checkpoint-every", NEVER]
        if phase == "gan":
            words.append("--gan")
        return out, json.loads(run(words).splitlines()[-1])

    def theirs(self, phase, steps, form="eager", untimed=0, held_out=""):
        first, _ = self.ours(f"first-{phase}", phase, 1, rate=1e-12)
        checkpoint, = sorted((first / "checkpoints").glob("checkpoint-*"))
        request = {"model": first / "model", "weights": checkpoint / "model.safetensors", "factors": PHASES[phase],
                   "form": form, "rate": RATE, "steps": steps, "untimed": untimed, "batch": self.options.batch,
                   "crop": self.crop, "train": self.options.shards / "train", "held_out": held_out,
                   "threads": self.threads()}
        words = [str(self.options.python), str(HERE / "torch_super_resolution.py")]
        result = subprocess.run(words, input=json.dumps(request, default=str), capture_output=True, text=True,
                                check=False)
        if result.returncode != 0:
            sys.exit(f"{' '.join(words)} failed with {result.returncode}:\n{result.stderr}")
        return json.loads(result.stdout.splitlines()[-1])

    @staticmethod
    def threads():
        return len(os.sched_getaffinity(0))

    @staticmethod
    def events(folder, kind):
        lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
        return [line for line in map(json.loads, lines) if line["event"] == kind]

    def losses(self, phase):
        # One replica: with a GAN each compares its own rows alone.
        folder, _ = self.ours(f"losses-{phase}", phase, LOSS_STEPS, replicas=1)
        mine = [event["loss"] for event in self.events(folder, "report")]
        others = self.theirs(phase, LOSS_STEPS)["losses"]
        worst = max(abs(a - b) / abs(b) for a, b in zip(mine, others, strict=True))
        yield f"loss of step {LOSS_STEPS}", f"{mine[-1]:.6f}", f"{others[-1]:.6f}", f"differ by {worst:.1e}", worst <= LOSS_BAR

    def psnr(self, phase):
        if phase != "pixels":
            return
        folder, _ = self.ours("psnr", phase, self.options.steps)
        mine = self.events(folder, "evaluation")[-1]["metrics"]["psnr"]
        other = self.theirs(phase, self.options.steps, held_out=self.options.shards / "validation")["psnr"]
        yield (f"PSNR of held-out crops after {self.options.steps} steps, dB", f"{mine:.3f}", f"{other:.3f}",
               f"{mine - other:+.3f}", mine >= other - PSNR_BAR)

    def speed(self, phase):
        def told(side, rate, memory):
            say(f"{phase}: {side}: {rate:.2f} images/s, {memory:.0f} MB")
            return rate, memory

        def theirs(form):
            found = self.theirs(phase, UNTIMED_STEPS + TIMED_STEPS, form, UNTIMED_STEPS)
            return told(f"PyTorch, {form}", found["rows_per_s"], found["peak_rss_mb"])

        def ours():
            folder, summary = self.ours(f"speed-{phase}", phase, UNTIMED_STEPS + TIMED_STEPS,
                                        report_every=UNTIMED_STEPS)
            timed = [event for event in self.events(folder, "report") if event["step"] > UNTIMED_STEPS]
            rate = sum(event["rows"] for event in timed) / sum(event["seconds"] for event in timed)
            return told("Millrace", rate, summary["peak_rss_mb"])

        form = max(self.options.forms, key=lambda form: theirs(form)[0])
        rounds = [(ours(), theirs(form)) for _ in range(ROUNDS)]
        for i, (what, holds) in enumerate((("images/s", lambda ratio: ratio >= 1),
                                           ("peak memory, MB", lambda ratio: ratio < 1))):
            ratio = statistics.median(mine[i] / other[i] for mine, other in rounds)
            sides = [f"{statistics.median(sides[side][i] for sides in rounds):.2f}" for side in (0, 1)]
            yield f"{what} ({form})", *sides, f"{ratio:.2f} times", holds(ratio)


def main():
    paragraphs = __doc__.split("\n\n")
    parser = argparse.ArgumentParser(description=paragraphs[0], epilog="\n\n".join(paragraphs[2:]),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workdir", type=pathlib.Path, help="for what the runs write")
    parser.add_argument("--shards", type=pathlib.Path, required=True, help="of prepare_super_resolution")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help="default: all")
    parser.add_argument("--blocks", type=int, default=3, help="of the generator (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=16, help="images (default: %(default)s)")
    parser.add_argument("--replicas", type=int, default=8, help="of ours (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=300, help="of the part psnr (default: %(default)s)")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS, help="of PyTorch (default: all)")
    parser.add_argument("--build", type=pathlib.Path, help="folder of the build (default: that of run.sh)")
    parser.add_argument("--python", type=pathlib.Path, default=sys.executable,
                        help=f"a python that has {', '.join(PACKAGES)} (default: %(default)s)")
    parser.add_argument("--cores", help="such as 0,1; default: all that this process may use")
    options = parser.parse_args()
    options.workdir = options.workdir.resolve()
    options.workdir.mkdir(parents=True, exist_ok=True)
    if options.cores:
        os.sched_setaffinity(0, {int(core) for core in options.cores.split(",")})
    comparison = Comparison(options)
    table = ["| part | phase | what | Millrace | PyTorch | | |", "|---|---|---|--:|--:|---|---|"]
    failed = False
    for part in options.parts:
        for phase in PHASES:
            for what, mine, other, difference, holds in getattr(comparison, part)(phase):
                failed |= not holds
                table.append(f"| {part} | {phase} | {what} | {mine} | {other} | {difference} | {'' if holds else '**no**'} |")
                say(table[-1])
    print("\n".join(table))
    sys.exit(failed)


main()
