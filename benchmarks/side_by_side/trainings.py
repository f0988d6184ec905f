#!/usr/bin/env python3
"""Compares the trainings of examples/quest and examples/text_to_text with the same ones in PyTorch and transformers.

usage: benchmarks/side_by_side/trainings.py WORKDIR [options]; see --help

It takes what `examples/quest/run.sh --fold 0` and `examples/text_to_text/run.sh` wrote, and programs of the same build.
Both sides start from the weights that ours has at step 0, take rows from the same shards, and have the same optimizer,
schedule and clipping. Parts:

  losses       50 steps without dropout on the same batches: the losses, step by step
  loading      the trained folders in transformers: keys, ids, loss and metric, what is said of each row; and a folder
               that transformers saved, in ours
  tensorboard  whether EventAccumulator reads each point of log.jsonl
  linear       logistic regressions on the counts of the same tokens
  speed        tokens of a second and peak memory, in turns; of PyTorch the fastest of four forms
  seeds        trainings with dropout, three seeds each: the best metric of each
"""
import argparse
import csv
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent))
from measured_run import run, say  # noqa: E402

PACKAGES = ["torch", "transformers", "scikit-learn", "scipy", "safetensors", "tensorboard"]
NEVER = 1_000_000  # steps
LOSS_STEPS, LOSS_BAR = 50, 1e-3
SPEED_STEPS, UNTIMED_STEPS, SPEED_ROUNDS, SPEED_BAR = 40, 10, 3, 1.5
FORMS, FORM_RUNS = ("eager", "autocast", "compiled", "compiled_autocast"), 2
SEEDS, METRIC_BAR = (1, 2, 3), 0.01
LINEAR_BAR = 0.8
NUM_TEXTS = 400


class Failure(Exception):
    pass


def need(holds, *why):
    if not holds:
        raise Failure(" ".join(map(str, why)))


def only(folder, pattern):
    found = sorted(folder.glob(pattern))
    need(len(found) == 1, f"{folder} has {len(found)} files {pattern}, not 1")
    return found[0]


def events(folder, kind):
    lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [line for line in map(json.loads, lines) if line["event"] == kind]


def best_of(folder):
    """The best model that was kept, and its evaluation."""
    step = events(folder, "best")[-1]["best"][0]["step"]
    evaluation, = (event for event in events(folder, "evaluation") if event["step"] == step)
    return folder / "best" / f"step-{step:08}", evaluation


class Task:
    """A training, on both sides."""

    def __init__(self, name, options):
        self.name, self.options = name, options
        self.out = getattr(options, name).resolve()
        self.work = options.workdir / name
        self.work.mkdir(parents=True, exist_ok=True)
        for path, pattern in self.needed:
            there = list((self.out / path).glob(pattern))
            need(there, f"there is no {self.out / path / pattern}; {self.made_by} writes it")
        for program in self.programs:
            need(self.program(program).exists(), f"there is no {self.program(program)}; {self.made_by} builds it")

    def program(self, name):
        return (self.options.build or ROOT / "build" / self.name) / "examples" / self.name / name

    def trained(self):
        """The folder of run.sh's training."""
        folder = self.run_folder(self.out)
        need((folder / "best").exists(), f"there is no {folder / 'best'}; {self.made_by} writes it")
        return folder

    def peer(self, request):
        words = [str(self.options.python), str(HERE / "torch_trainings.py")]
        request = json.dumps({"task": self.name, **request}, default=str)
        result = subprocess.run(words, input=request, capture_output=True, text=True, check=False)
        failed = f"{' '.join(words)} failed with {result.returncode} for {request}:\n{result.stderr}"
        need(result.returncode == 0, failed)
        return json.loads(result.stdout.splitlines()[-1])

    def train_ours(self, name, phases, seed=1, model=None, dropout=None, evaluate_every=NEVER, report_every=1,
                   shuffle=None):
        """The folder of the run, and its summary."""
        out = self.work / name
        words = [self.program(f"train_{self.name}"), "--out", out, "--overwrite", "--json", "--seed", seed, "--threads",
                 len(os.sched_getaffinity(0)), "--report-every", report_every, "--evaluate-every", evaluate_every,
                 "--checkpoint-every", NEVER, *self.own_options(model, dropout)]
        if shuffle:
            words += ["--shuffle", shuffle]
        for phase in phases:  # freeze comes last there
            words += ["--phase", ",".join(f"{key.replace('_', '-')}={value}" for key, value in phase.items())]
        summary = json.loads(run(words).splitlines()[-1])
        return self.run_folder(out), summary

    def train_theirs(self, model, phases, seed=1, dropout=None, form="eager", shuffle=None, **more):
        return self.peer({"do": "train", "model": model, "train": self.train, "validation": self.validation,
                          "phases": phases, "seed": seed, "dropout": dropout, "form": form, "batch": self.batch,
                          "shuffle": shuffle or self.shuffle, "clip_norm": self.clip_norm, "own_optimizers": False,
                          **more})

    def first(self, seed, model=None):
        """Our model at step 0: the one step has a learning rate of 0."""
        phase = {**self.recipe()[-1], "steps": 1, "warmup_steps": 1, "start_rate": 0}
        folder, _ = self.train_ours(f"first-{seed}", [phase], seed=seed, model=model)
        return folder / "model"

    def losses(self):
        start = self.without_dropout()
        phases = self.recipe(LOSS_STEPS)
        folder, _ = self.train_ours("losses", phases, model=start, dropout=0, shuffle=1)
        ours = [event["loss"] for event in events(folder, "report")]
        theirs = self.train_theirs(self.first(1, start), phases, dropout=0, shuffle=1)["losses"]
        need(len(ours) == len(theirs) == LOSS_STEPS, f"{len(ours)} and {len(theirs)} losses, not {LOSS_STEPS}")
        lines = [f"{i} {a:.7f} {b:.7f}\n" for i, (a, b) in enumerate(zip(ours, theirs), 1)]
        (self.work / "losses.txt").write_text("".join(lines), encoding="utf-8")
        worst = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))
        yield "loss of step 1", f"{ours[0]:.6f}", f"{theirs[0]:.6f}", "", True
        yield (f"loss of step {LOSS_STEPS}", f"{ours[-1]:.6f}", f"{theirs[-1]:.6f}", f"largest difference {worst:.1e}",
               worst <= LOSS_BAR)

    def loading(self):
        model, ours = best_of(self.trained())
        texts, form, rows, said = self.made_rows(model)
        checked = self.peer({"do": "check", "model": model, "validation": self.validation, "rows": rows, "texts": texts,
                             "form": form})
        need(not checked["keys"], f"{model} in transformers: {checked['keys']}")
        different = checked["different_ids"]
        yield f"ids of {len(texts)} texts", "", "", f"{different} rows differ", different == 0
        yield self.compared("validation loss", ours["loss"], checked["evaluation"]["loss"], 1e-5)
        yield self.compared(self.metric, ours["metrics"][self.metric], checked["evaluation"]["metric"], 1e-4)
        yield self.compared_answers(said, checked["outputs"])
        # Theirs in ours: trained a little, saved by transformers.
        saved = self.work / "saved_by_transformers"
        shutil.rmtree(saved, ignore_errors=True)
        self.train_theirs(model, self.recipe(3), save=saved)
        phase = {**self.recipe()[-1], "steps": 1, "warmup_steps": 1, "start_rate": 0}
        folder, _ = self.train_ours("from_transformers", [phase], model=saved)
        # The other side reads what it saved, not our copy of it; the heads of examples/quest are of that alone.
        checked = self.peer({"do": "check", "model": folder / "model", "saved": saved, "validation": self.validation})
        need(not checked["keys"], f"{saved} in transformers: {checked['keys']}")
        different = checked["different_tensors"]
        yield f"{checked['tensors']} tensors of theirs in ours", "", "", f"{different or 'none'} differ", not different
        yield self.compared("validation loss of a folder of theirs", events(folder, "evaluation")[-1]["loss"],
                            checked["evaluation"]["loss"], 1e-5)

    @staticmethod
    def compared(what, ours, theirs, bar):
        difference = abs(ours - theirs) / abs(theirs)
        return what, f"{ours:.6f}", f"{theirs:.6f}", f"{difference:.1e}", difference <= bar

    def tensorboard(self):
        folder = self.trained()
        found = self.peer({"do": "curves", "folder": folder / "tensorboard"})
        expected = {}
        for kind, prefix in (("report", "train"), ("evaluation", "evaluation")):
            for event in events(folder, kind):
                values = {name: event[name] for name in ("loss", "learning_rate", "gradient_norm") if name in event}
                for name, value in {**values, **event["metrics"]}.items():
                    expected.setdefault(f"{prefix}/{name}", []).append([event["step"], value])
        reports = [event["step"] for event in events(folder, "report")]
        for tag in found.keys() | expected.keys():
            read, steps = found.get(tag, []), reports
            if tag in expected:
                steps = [step for step, _ in expected[tag]]
                same = all(abs(a - b) <= 1e-6 * abs(b) for (_, a), (_, b) in zip(read, expected[tag]))
                need(same, f"TensorBoard reads other values of {tag}: {read}, not {expected[tag]}")
            need([step for step, _ in read] == steps, f"TensorBoard reads other steps of {tag}: {read}, not {steps}")
        count = sum(map(len, expected.values()))
        yield f"points of {len(expected)} curves", str(count), str(count), f"{len(found)} curves in all", True

    def linear(self):
        found = self.peer({"do": "linear", "features": self.token_features, "rows": self.splits})
        for split, value in self.figures().items():
            yield (f"{split}: {self.metric} of a linear model (C {found['C']})", f"{value:.4f}", f"{found[split]:.4f}",
                   f"{value / found[split]:.2f} of it", value >= LINEAR_BAR * found[split])

    def speed(self):
        phases = [{**self.recipe(SPEED_STEPS)[-1], "steps": SPEED_STEPS}]
        first = self.first(1)

        def told(side, rate, memory):
            say(f"{self.name}: {side}: {rate:.0f} tokens/s, {memory:.0f} MB")
            return rate, memory

        def theirs(form):
            found = self.train_theirs(first, phases, form=form, untimed=UNTIMED_STEPS, own_optimizers=True)
            return told(f"PyTorch, {form}", found["rows_per_s"] * self.tokens, found["peak_rss_mb"])

        def ours():
            folder, summary = self.train_ours("speed", phases, report_every=UNTIMED_STEPS)
            timed = [event for event in events(folder, "report") if event["step"] > UNTIMED_STEPS]
            rate = sum(event["rows"] for event in timed) / sum(event["seconds"] for event in timed)
            return told("Millrace", rate * self.tokens, summary["peak_rss_mb"])

        # In turns, and of each the faster run: the first ones of a machine are slow.
        _, form = max((theirs(form)[0], form) for _ in range(FORM_RUNS) for form in FORMS)
        rounds = [(ours(), theirs(form)) for _ in range(SPEED_ROUNDS)]
        for i, (what, holds) in enumerate((("tokens/s", lambda ratio: ratio >= SPEED_BAR),
                                           ("peak memory, MB", lambda ratio: ratio < 1))):
            ratio = statistics.median(mine[i] / other[i] for mine, other in rounds)
            sides = [f"{statistics.median(sides[side][i] for sides in rounds):.0f}" for side in (0, 1)]
            yield f"{what} ({form})", *sides, f"{ratio:.2f} times", holds(ratio)

    def seeds(self):
        phases, ours, theirs = self.recipe(self.seed_steps), [], []
        for seed in SEEDS:
            folder, _ = self.train_ours("seeds", phases, seed=seed, evaluate_every=self.evaluate_every)
            ours.append(max(event["metrics"][self.metric] for event in events(folder, "evaluation")))
            found = self.train_theirs(self.first(seed), phases, seed=seed, evaluate_every=self.evaluate_every)
            theirs.append(max(evaluation["metric"] for evaluation in found["evaluations"]))
            say(f"{self.name}: seed {seed}: best {self.metric} {ours[-1]:.4f}, PyTorch {theirs[-1]:.4f}")
        error = math.sqrt((statistics.variance(ours) + statistics.variance(theirs)) / len(SEEDS))
        difference = statistics.mean(ours) - statistics.mean(theirs)
        texts = [f"{statistics.mean(values):.4f} ({', '.join(f'{value:.4f}' for value in values)})"
                 for values in (ours, theirs)]
        yield (f"best {self.metric}, mean of {len(SEEDS)} seeds", *texts,
               f"{difference:+.4f}, standard error {error:.4f}", abs(difference) <= max(METRIC_BAR, 2 * error))


class Quest(Task):
    made_by = "examples/quest/run.sh --fold 0"
    needed = [("shards", "train-0-*.tfrec"), ("encoder/model", "config.json")]
    programs = ["prepare_quest", "train_quest", "predict_quest"]
    metric, batch, shuffle, clip_norm = "spearman", 64, 2048, 0
    seed_steps = None
    token_features = [["input_ids_question", "input_mask_question"], ["input_ids_answer", "input_mask_answer"]]

    def __init__(self, options):
        super().__init__("quest", options)
        self.train, self.validation = (only(self.out / "shards", f"{split}-0-*.tfrec") for split in ("train", "valid"))
        self.splits = {"train": self.train, "validation": self.validation}
        _, _, rows, question, answer = self.train.stem.split("-")
        self.evaluate_every = int(rows) // self.batch  # steps of an epoch
        self.tokens = int(question) + int(answer)
        self.encoder = self.out / "encoder" / "model"

    @staticmethod
    def run_folder(out):
        return out / "fold-0"

    def own_options(self, model, dropout):
        words = ["--shards", self.out / "shards", "--fold", 0, "--model", model or self.encoder, "--tokenizer",
                 self.encoder / "tokenizer.json", "--global-batch", self.batch]
        return words if dropout is None else [*words, "--head-dropout", dropout]

    def train_theirs(self, model, phases, dropout=None, **more):
        return super().train_theirs(model, phases, dropout=0.5 if dropout is None else dropout, **more)

    def recipe(self, steps=None):
        """The phases of run.sh: heads, then everything; a short form has fewer steps."""
        heads = steps // 3 if steps else self.evaluate_every
        rest = steps - heads if steps else 4 * self.evaluate_every
        return [{"steps": heads, "optimizer": "radam", "learning_rate": 1e-2, "end_rate": 1e-2, "warmup_steps": 0,
                 "freeze": "^roberta"},
                {"steps": rest, "optimizer": "radam", "learning_rate": 2e-3, "start_rate": 2e-3 / 30, "end_rate": 2e-4,
                 "warmup_steps": max(1, rest // 10), "decay": "cosine"}]

    def without_dropout(self):
        folder = self.work / "encoder_without_dropout"
        shutil.copytree(self.encoder, folder, dirs_exist_ok=True)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        return folder

    def made_rows(self, model):
        """Texts, rows of them as ours prepares them, and what ours says of them."""
        texts = self.peer({"do": "decode", "model": model, "rows": self.validation, "count": NUM_TEXTS,
                           "special": ["[CLS]", "[SEP]", "<pad>"], "features": [ids for ids, _ in self.token_features]})
        # Some of them are too long.
        texts = [[title, body, f"{answer} {body} {answer}" if i % 2 else answer]
                 for i, (_, title, body, _, answer) in enumerate(texts["texts"])]
        path, shards, submission = (self.work / name for name in ("texts.csv", "texts", "texts_predicted.csv"))
        write_csv(path, ["qa_id", "question_title", "question_body", "answer", "target"],
                  ([i, *parts, i % 2] for i, parts in enumerate(texts)))
        limits = json.loads((model / "quest.json").read_text(encoding="utf-8"))["limits"]
        run([self.program("prepare_quest"), "--csv", path, "--out", shards, "--folds", 2, "--tokenizer",
             model / "tokenizer.json", "--question-targets", "target", "--answer-targets", "", "--joint-targets", "",
             *(word for name, value in limits.items() for word in (f"--max-{name}", value))])
        in_fold = [int(qa_id) for qa_id, fold in read_csv(shards / "folds.csv") if fold == "0"]
        one_fold = self.work / "one_fold"
        one_fold.mkdir(exist_ok=True)
        (one_fold / "fold-0").unlink(missing_ok=True)
        (one_fold / "fold-0").symlink_to(self.trained())
        run([self.program("predict_quest"), "--models", one_fold, "--csv", path, "--out", submission, "--no-binning"])
        predicted = [list(map(float, row[1:])) for row in read_csv(submission)]
        return [texts[i] for i in in_fold], limits, only(shards, "valid-0-*.tfrec"), [predicted[i] for i in in_fold]

    @staticmethod
    def compared_answers(ours, theirs):
        largest = max(abs(a - b) for rows in zip(ours, theirs, strict=True) for a, b in zip(*rows, strict=True))
        return f"predictions of {len(ours)} texts", "", "", f"differ by at most {largest:.1e}", largest <= 1e-5

    def figures(self):
        return {"validation": best_of(self.trained())[1]["metrics"]["spearman"]}


class TextToText(Task):
    made_by = "examples/text_to_text/run.sh"
    needed = [("rows", "train-*.tfrecord")]
    programs = ["prepare_text_to_text", "train_text_to_text", "predict_text_to_text"]
    metric, batch, shuffle, clip_norm = "accuracy", 32, 1024, 1
    token_features = [["input_ids", "attention_mask"]]
    evaluate_every = 200
    seed_steps = 600

    def __init__(self, options):
        super().__init__("text_to_text", options)
        self.splits = {split: only(self.out / "rows", f"{split}-*.tfrecord")
                       for split in ("train", "validation", "test")}
        self.train, self.validation = self.splits["train"], self.splits["validation"]
        self.form = json.loads((self.out / "rows" / "statistics.json").read_text(encoding="utf-8"))["task"]
        self.tokens = self.form["max_length"]

    @staticmethod
    def run_folder(out):
        return out

    def own_options(self, model, dropout):
        words = ["--rows", self.out / "rows", "--global-batch", self.batch, "--clip-norm", self.clip_norm]
        if model:
            words += ["--model", model]
        return words if dropout is None else [*words, "--dropout", dropout]

    @staticmethod
    def recipe(steps=None):
        """The phase of run.sh; a short form warms up in fewer steps."""
        return [{"steps": steps or 1600, "optimizer": "adamw", "learning_rate": 1e-3, "weight_decay": 0.01,
                 "warmup_steps": (steps or 500) // 5}]

    @staticmethod
    def without_dropout():
        return None  # --dropout says it

    def made_rows(self, model):
        texts = self.peer({"do": "decode", "model": model, "rows": self.validation, "count": NUM_TEXTS,
                           "special": ["</s>", "<extra_id_1>", "<pad>"], "features": ["input_ids"]})
        # Some of them are too long.
        texts = [[title.removeprefix(self.form["prefix"]), " ".join(body * (1 + i % 3))]
                 for i, (title, *body) in enumerate(texts["texts"])]
        path, rows, answers = (self.work / name for name in ("texts.csv", "texts", "texts_predicted.csv"))
        classes = self.form["classes"]
        write_csv(path, ["Id", "Title", "Body", "Y"],
                  ([i, *parts, classes[i % len(classes)]["name"]] for i, parts in enumerate(texts)))
        run([self.program("prepare_text_to_text"), "--csv", path, "--body", "text", "--out", rows, "--tokenizer",
             model / "tokenizer.json", "--prefix", self.form["prefix"], "--max-length", self.form["max_length"],
             "--head", self.form["head"], "--validation-share", 0, "--test-share", 0, "--classes",
             *(one["name"] for one in classes), "--words", *(one["word"] for one in classes)])
        run([self.program("predict_text_to_text"), "--model", model, "--csv", path, "--out", answers])
        return texts, self.form, only(rows, "train-*.tfrecord"), [word for _, _, word in read_csv(answers)]

    @staticmethod
    def compared_answers(ours, theirs):
        different = sum(a != b for a, b in zip(ours, theirs, strict=True))
        return f"words for {len(ours)} texts", "", "", f"{different} differ", different == 0

    def figures(self):
        model, evaluation = best_of(self.trained())
        answers = run([self.program("predict_text_to_text"), "--model", model, "--rows", self.out / "rows", "--json"])
        return {"validation": evaluation["metrics"]["accuracy"], "test": json.loads(answers)["accuracy"]}


TASKS = {"quest": Quest, "text_to_text": TextToText}
PARTS = ("losses", "loading", "tensorboard", "linear", "speed", "seeds")


def write_csv(path, header, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def read_csv(path):
    """Without the header."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


def missing_packages(python):
    names = [name.replace("scikit-learn", "sklearn") for name in PACKAGES]
    return run([python, "-c", "import importlib.util, sys; "
                "print(*(name for name in sys.argv[1:] if importlib.util.find_spec(name) is None))", *names]).split()


def main():
    paragraphs = __doc__.split("\n\n")
    parser = argparse.ArgumentParser(description=paragraphs[0], epilog="\n\n".join(paragraphs[2:]),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workdir", type=pathlib.Path, help="for what the runs write")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help="default: all")
    parser.add_argument("--only", choices=TASKS, help="one of the examples")
    for name in TASKS:
        parser.add_argument(f"--{name.replace('_', '-')}", type=pathlib.Path, default=ROOT / "examples" / name / "out",
                            help="--out of its run.sh (default: %(default)s)")
    parser.add_argument("--build", type=pathlib.Path, help="folder of the build (default: those of run.sh)")
    parser.add_argument("--python", type=pathlib.Path, default=sys.executable,
                        help=f"a python that has {', '.join(PACKAGES)} (default: %(default)s)")
    parser.add_argument("--cores", help="such as 0,1; default: all that this process may use")
    options = parser.parse_args()
    options.workdir = options.workdir.resolve()
    if missing := missing_packages(options.python):
        sys.exit(f"{options.python} has no {', '.join(missing)}; they come by\n  python3 -m venv peers && "
                 f"peers/bin/pip install {' '.join(PACKAGES)}\nand --python peers/bin/python")
    if options.cores:
        os.sched_setaffinity(0, {int(core) for core in options.cores.split(",")})
    table = ["| part | example | what | Millrace | Python | | |", "|---|---|---|--:|--:|---|---|"]
    failed = False
    for part in options.parts:
        for name in [options.only] if options.only else TASKS:
            say(f"{part}: {name}")
            begin = time.monotonic()
            try:
                for what, ours, theirs, difference, holds in getattr(TASKS[name](options), part)():
                    failed |= not holds
                    cells = [part, name, what, ours, theirs, difference, "" if holds else "**no**"]
                    table.append(f"| {' | '.join(cells)} |")
                    say(table[-1])
            except Failure as failure:
                failed = True
                say(failure)
                table.append(f"| {part} | {name} | {str(failure).splitlines()[0]} | | | | **no** |")
            say(f"{part}: {name}: {(time.monotonic() - begin) / 60:.1f} min")
    print("\n".join(table))
    sys.exit(failed)


main()
