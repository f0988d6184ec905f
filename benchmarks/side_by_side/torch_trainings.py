"""The side of PyTorch, transformers and scikit-learn in trainings.py, which gives it one request (JSON) on standard
input and reads one answer from the last line of its output. Needs torch, transformers, scikit-learn, tensorboard."""
import json
import math
import os
import re
import resource
import sys
import time
from pathlib import Path

import numpy
import torch
from prepared_rows import batches, read_rows
from safetensors.torch import load_file
from torch.nn import functional
from transformers import PreTrainedTokenizerFast, RobertaModel, T5ForConditionalGeneration


class Head(torch.nn.Module):
    def __init__(self, width, targets):
        super().__init__()
        narrow = max(1, width // 4)
        self.gate = torch.nn.ModuleDict({"reduce": torch.nn.Linear(width, narrow),
                                         "expand": torch.nn.Linear(narrow, width)})
        self.output = torch.nn.Linear(width, targets)

    def forward(self, x, dropout):
        x = x * torch.sigmoid(self.gate["expand"](torch.relu(self.gate["reduce"](x))))
        return self.output(functional.dropout(x, dropout, self.training))


class QuestionAnswer(torch.nn.Module):
    """examples/quest: one encoder for both texts, the mean of its states, a gated head for each kind of target."""

    def __init__(self, folder, dropout=0.5, encoder=None):
        super().__init__()
        self.roberta, self.loading = RobertaModel.from_pretrained(encoder or folder, add_pooling_layer=False,
                                                                  output_loading_info=True)
        self.dropout = dropout
        heads = [target["head"] for target in json.loads(Path(folder, "quest.json").read_text("utf-8"))["targets"]]
        width = self.roberta.config.hidden_size
        self.heads = torch.nn.ModuleDict({name: Head(width * (3 if name == "joint" else 1), heads.count(name))
                                          for name in ("question", "answer", "joint") if name in heads})
        self.columns = [i for name in self.heads for i, head in enumerate(heads) if head == name]
        weights = load_file(Path(folder, "model.safetensors"))
        self.heads.load_state_dict({name.removeprefix("heads."): value for name, value in weights.items()
                                    if name.startswith("heads.")})

    def pooled(self, ids, mask):
        states = self.roberta(input_ids=ids, attention_mask=mask).last_hidden_state
        return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)

    def forward(self, rows):
        texts = [rows["input_ids_question"], rows["input_ids_answer"]]
        masks = [rows["input_mask_question"], rows["input_mask_answer"]]
        if texts[0].shape == texts[1].shape:  # one call is faster than two
            q, a = self.pooled(torch.cat(texts), torch.cat(masks)).chunk(2)
        else:
            q, a = (self.pooled(ids, mask) for ids, mask in zip(texts, masks))
        seen = {"question": q, "answer": a, "joint": torch.cat([q, a, q * a], 1)}
        logits = torch.cat([head(seen[name], self.dropout) for name, head in self.heads.items()], 1)
        return torch.empty_like(logits).index_copy(1, torch.tensor(self.columns), logits)


class Quest:
    across_epochs = True

    def __init__(self, folder, dropout, saved=None):
        self.model = QuestionAnswer(folder, dropout, saved)
        self.loading = self.model.loading

    @staticmethod
    def loss(model, rows):
        logits = model(rows)
        return functional.binary_cross_entropy_with_logits(logits, rows["labels"]), logits

    @staticmethod
    def metric(outputs, rows):
        return mean_spearman(outputs.numpy(), rows["labels"].numpy())

    @staticmethod
    def said(model, rows, tokenizer):
        return torch.sigmoid(model(rows)).tolist()

    @staticmethod
    def encode(ids, tokenizer, form, text):
        title, body, answer = map(ids, text)
        begin, end = [tokenizer.cls_token_id], [tokenizer.sep_token_id]
        question_begin, answer_begin = (begin + ids(word) + end for word in ("question", "answer"))
        most_of_body = form["question"] - len(question_begin) - form["title"] - 4
        most_of_answer = form["answer"] - len(answer_begin) - 2
        question = question_begin + begin + title[:form["title"]] + end + begin + body[:most_of_body] + end
        return {"input_ids_question": question,
                "input_ids_answer": answer_begin + begin + answer[:most_of_answer] + end}


class TextToText:
    across_epochs = False

    def __init__(self, folder, dropout, saved=None):
        self.model, self.loading = T5ForConditionalGeneration.from_pretrained(
            saved or folder, output_loading_info=True, **({} if dropout is None else {"dropout_rate": dropout}))

    @staticmethod
    def loss(model, rows):
        said = model(input_ids=rows["input_ids"], attention_mask=rows["attention_mask"], labels=rows["labels"])
        return said.loss, said.logits[:, 0].argmax(-1)  # of the first token, which depends on no label

    @staticmethod
    def metric(outputs, rows):
        return (outputs == rows["labels"][:, 0]).double().mean().item()

    @classmethod
    def said(cls, model, rows, tokenizer):
        return [tokenizer.decode([token]) for token in cls.loss(model, rows)[1].tolist()]

    @staticmethod
    def encode(ids, tokenizer, form, text):
        found = ids(form["prefix"] + "</s>".join([*text, ""]))
        if len(found) > form["max_length"]:
            tail = form["max_length"] - form["head"] - 1
            found = found[:form["head"]] + [tokenizer.convert_tokens_to_ids("<extra_id_1>")] + found[-tail:]
        return {"input_ids": found}


TASKS = {"quest": Quest, "text_to_text": TextToText}


def mean_spearman(scores, labels):
    from scipy.stats import rankdata
    values = [numpy.corrcoef(rankdata(a), rankdata(b))[0, 1] for a, b in zip(scores.T, labels.T)
              if numpy.ptp(a) > 0 and numpy.ptp(b) > 0]
    return float(numpy.mean(values))


def load_tensors(path):
    return {key: torch.from_numpy(values) for key, values in read_rows(path).items()}


@torch.no_grad()
def evaluate(task, model, rows, batch=64):
    """Loss, metric, and what the model says of each row."""
    model.eval()
    count = len(next(iter(rows.values())))
    total, outputs = 0.0, []
    for begin in range(0, count, batch):
        part = {key: values[begin:begin + batch] for key, values in rows.items()}
        loss, output = task.loss(model, part)
        total += loss.double().item() * len(output)  # every row has equally many labels
        outputs.append(output)
    model.train()
    outputs = torch.cat(outputs)
    return {"loss": total / count, "metric": task.metric(outputs, rows)}, outputs


def learning_rate(phase, step):
    highest, end, warmup = phase["learning_rate"], phase.get("end_rate", 0), phase.get("warmup_steps", 0)
    if step < warmup:
        start = phase.get("start_rate", 0)
        return start + (highest - start) * step / warmup
    left = 1 - (step - warmup) / (phase["steps"] - warmup)
    if phase.get("decay") == "cosine":
        left = 0.5 * (1 - math.cos(math.pi * left))
    return end + (highest - end) * left


class Optimizer(torch.optim.Optimizer):
    """AdamW and RAdam as TensorFlow's libraries and Millrace have them. torch.optim has epsilon elsewhere: Adam's
    is divided by the root of the second moment's correction here, RAdam's there.
    """

    def __init__(self, groups, name):
        super().__init__(groups, {"lr": 0, "weight_decay": 0})
        self.update, self.epsilon = {"adamw": (self.adamw, 1e-8), "radam": (self.radam, 1e-6)}[name]

    @torch.no_grad()
    def step(self):
        beta1, beta2 = 0.9, 0.999
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["t"] += 1
                t, m, v = state["t"], state["m"], state["v"]
                m.lerp_(p.grad, 1 - beta1)
                v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                correction = 1 - beta2**t
                direction = self.update(t, m / (1 - beta1**t), v, beta2, correction)
                p.sub_(direction.add_(p, alpha=group["weight_decay"]), alpha=group["lr"])

    def adamw(self, t, first, v, beta2, correction):
        return first.mul_(math.sqrt(correction)).div_(v.sqrt().add_(self.epsilon))

    def radam(self, t, first, v, beta2, correction):
        infinite = 2 / (1 - beta2) - 1
        sma = infinite - 2 * t * beta2**t / correction
        if sma < 5:
            return first
        r = math.sqrt((sma - 4) * (sma - 2) * infinite / ((infinite - 4) * (infinite - 2) * sma))
        return first.mul_(r).div_((v / correction).sqrt_().add_(self.epsilon))


def make_optimizer(phase, model, own):
    """`own`: PyTorch's, which are faster."""
    decays, others = [], []
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not (phase.get("freeze") and re.search(phase["freeze"], name)))
        (others if re.search("LayerNorm|layer_norm|bias", name) else decays).append(parameter)
    groups = [{"params": decays, "weight_decay": phase.get("weight_decay", 0)}, {"params": others, "weight_decay": 0}]
    if not own:
        return Optimizer(groups, phase["optimizer"])
    if phase["optimizer"] == "adamw":
        return torch.optim.AdamW(groups, eps=1e-8, fused=True)
    return torch.optim.RAdam(groups, eps=1e-6, foreach=True)


def train(request):
    torch.manual_seed(request["seed"])
    task = TASKS[request["task"]](request["model"], request["dropout"])
    model = task.model.train()
    forward = torch.compile(model) if "compiled" in request["form"] else model
    rows = load_tensors(request["train"])
    validation = load_tensors(request["validation"]) if request.get("evaluate_every") else None
    count = len(rows["labels"])
    order = batches(count, request["batch"], request["shuffle"], numpy.random.default_rng(request["seed"]),
                    task.across_epochs)
    steps = sum(phase["steps"] for phase in request["phases"])
    losses, evaluations, seconds, trained_rows = [], [], 0.0, 0
    for phase in request["phases"]:
        optimizer = make_optimizer(phase, model, request["own_optimizers"])
        for step in range(phase["steps"]):
            begin = time.perf_counter()
            numbers = torch.tensor(next(order))
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(phase, step)
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled="autocast" in request["form"]):
                loss, _ = task.loss(forward, {key: values[numbers] for key, values in rows.items()})
            loss.backward()
            if request["clip_norm"]:
                torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], request["clip_norm"])
            optimizer.step()
            losses.append(loss.item())
            if len(losses) > request.get("untimed", 0):
                seconds += time.perf_counter() - begin
                trained_rows += len(numbers)
            if validation and (len(losses) % request["evaluate_every"] == 0 or len(losses) == steps):
                evaluations.append({"step": len(losses), **evaluate(task, model, validation)[0]})
    if request.get("save"):
        saved = model if request["task"] == "text_to_text" else model.roberta
        saved.save_pretrained(request["save"])
    return {"losses": losses, "evaluations": evaluations, "rows_per_s": trained_rows / seconds,
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def different_tensors(saved, model):
    """How many tensors transformers saved, and which of them our folder has not, or other ones of the name."""
    theirs, ours = (load_file(Path(folder, "model.safetensors")) for folder in (saved, model))
    ours = {name.removeprefix("roberta."): values for name, values in ours.items() if not name.startswith("heads.")}
    return len(theirs), sorted(name for name in theirs.keys() | ours.keys()
                               if name not in theirs or name not in ours or not torch.equal(theirs[name], ours[name]))


def check(request):
    """What transformers makes of a trained folder: keys, loss and metric; of texts ids, and what the model says. With
    a folder that it saved and ours began with, of that one, and which tensors differ."""
    task = TASKS[request["task"]](request["model"], 0, request.get("saved"))
    keys = {name: sorted(map(str, found)) for name, found in task.loading.items() if found}
    if request["task"] == "quest":  # the heads are ours
        keys["unexpected_keys"] = [key for key in keys.get("unexpected_keys", []) if not key.startswith("heads.")]
    evaluation, _ = evaluate(task, task.model, load_tensors(request["validation"]))
    answer = {"keys": {name: found for name, found in keys.items() if found}, "evaluation": evaluation}
    if "saved" in request:
        answer["tensors"], answer["different_tensors"] = different_tensors(request["saved"], request["model"])
    if "texts" in request:
        rows = load_tensors(request["rows"])
        tokenizer = PreTrainedTokenizerFast.from_pretrained(request["model"])

        def ids(text):
            return tokenizer(text, add_special_tokens=False)["input_ids"]

        answer["different_ids"] = 0
        for i, text in enumerate(request["texts"]):
            for feature, expected in task.encode(ids, tokenizer, request["form"], text).items():
                found = rows[feature][i].tolist()
                answer["different_ids"] += found != expected + [tokenizer.pad_token_id] * (len(found) - len(expected))
        with torch.no_grad():
            answer["outputs"] = task.said(task.model.eval(), rows, tokenizer)
    return answer


def decode(request):
    """Texts for rows: what the tokenizer makes of the ids of others between two special tokens."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(request["model"])
    special = {None, *(tokenizer.convert_tokens_to_ids(token) for token in request["special"])}
    rows = read_rows(request["rows"])
    texts = []
    for i in range(request["count"]):
        parts, part = [], []
        for feature in request["features"]:
            for token in [*rows[feature][i].tolist(), None]:
                if token not in special:
                    part.append(token)
                elif part:
                    parts.append(tokenizer.decode(part, clean_up_tokenization_spaces=False))
                    part = []
        texts.append(parts)
    return {"texts": texts}


def linear(request):
    """The best of some logistic regressions (ridge where targets are not 0 and 1) on the counts of the rows' tokens."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge

    splits = {name: read_rows(path) for name, path in request["rows"].items()}

    def words(rows):
        return [[(name, int(token)) for name, mask in request["features"]
                 for token in rows[name][i][rows[mask][i] == 1]] for i in range(len(rows["labels"]))]

    vectorizer = CountVectorizer(analyzer=list)
    counts = {"train": vectorizer.fit_transform(words(splits["train"]))}
    counts |= {name: vectorizer.transform(words(rows)) for name, rows in splits.items() if name != "train"}
    best = None
    for strength in (0.03, 0.1, 0.3, 1):
        if request["task"] == "quest":
            labels = splits["train"]["labels"]
            columns = []
            for target in labels.T:
                if not set(numpy.unique(target)) <= {0, 1}:
                    columns.append(Ridge(1 / strength).fit(counts["train"], target).predict)
                elif numpy.ptp(target) > 0:
                    model = LogisticRegression(C=strength, solver="liblinear").fit(counts["train"], target)
                    columns.append(model.decision_function)
                else:
                    columns.append(lambda rows: numpy.zeros(rows.shape[0]))
            found = {name: mean_spearman(numpy.stack([say(counts[name]) for say in columns], 1), splits[name]["labels"])
                     for name in splits if name != "train"}
        else:
            model = LogisticRegression(C=strength, max_iter=2000).fit(counts["train"], splits["train"]["class"][:, 0])
            found = {name: model.score(counts[name], splits[name]["class"][:, 0]) for name in splits if name != "train"}
        if best is None or found["validation"] > best["validation"]:
            best = {"C": strength, **found}
    return best


def curves(request):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(request["folder"], size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [[event.step, event.value] for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def main():
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    request = json.loads(sys.stdin.read())
    do = {"train": train, "check": check, "decode": decode, "linear": linear, "curves": curves}[request["do"]]
    print(json.dumps(do(request)))


main()
