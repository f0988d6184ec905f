#!/usr/bin/env python3
"""Compares the head of examples/frozen_features with logistic regressions of scikit-learn on the same features.

usage: benchmarks/side_by_side/frozen_features.py OUT [--pictures DIR] [--network FILE]

OUT: the folder of examples/frozen_features/run.sh. Prints a table: of one logistic regression for each class, as the
head is, and of one over all classes, each at scikit-learn's own strength (C = 1) and at the best of several, the
accuracy over the pictures to test on; ends with 1 where the head is more than a point below one at C = 1. Needs numpy,
protobuf, safetensors and scikit-learn. With --pictures, and torch and Pillow, it also has PyTorch make the features of some pictures,
with the kernels of --network (default: OUT/features/network.safetensors), and compares them.
"""
import argparse
import csv
import json
import pathlib
import sys

import numpy

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from prepared_rows import read_rows  # noqa: E402

SHARDS = 8
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
POINT = 0.01
PICTURES, FEATURE_BAR = 20, 1e-3
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def read_part(folder, part):
    """Features and classes, in the order of the elements."""
    shards = [read_rows(folder / part / f"dataset.{number}.tfrecord") for number in range(SHARDS)]
    shards = [shard for shard in shards if shard]
    count = sum(len(shard["label"]) for shard in shards)
    rows = [(shards[i % SHARDS], i // SHARDS) for i in range(count)]
    return (numpy.stack([shard["features"][row] for shard, row in rows]),
            numpy.array([shard["label"][row].argmax() for shard, row in rows]))


def accuracy_of_head(out, features, classes):
    from safetensors.numpy import load_file
    tensors = load_file(out / "model" / "model.safetensors")
    x = (features - tensors["features.mean"]) * tensors["features.scale"]
    said = (x @ tensors["head.weight"].T + tensors["head.bias"]).argmax(axis=1)
    return float((said == classes).mean())


def compare_with_regressions(out):
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    features, classes = read_part(out / "features", "train")
    test_features, test_classes = read_part(out / "features", "test")
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    deviation[deviation == 0] = 1
    x, test_x = (features - mean) / deviation, (test_features - mean) / deviation
    head = accuracy_of_head(out, test_features, test_classes)
    print(f"{len(classes)} pictures to train on, {len(test_classes)} to test on, {x.shape[1]} features; "
          f"chance {1 / (classes.max() + 1):.4f}")
    print(f"{'the head':<40}{head:.4f}")
    worst = 0.0
    for name, wrap in (("a regression for each class", OneVsRestClassifier), ("one over all classes", lambda it: it)):
        found = {}
        for strength in STRENGTHS:
            model = wrap(LogisticRegression(C=strength, max_iter=5000)).fit(x, classes)
            found[strength] = float((model.predict(test_x) == test_classes).mean())
        print(f"{name + ', C = 1':<40}{found[1.0]:.4f}")
        best = max(found, key=found.get)
        print(f"{f'{name}, C = {best:g}, the best':<40}{found[best]:.4f}")
        worst = max(worst, found[1.0] - head)
    return worst <= POINT


def compare_with_torch(out, pictures, network):
    import torch
    from PIL import Image, ImageOps
    from safetensors.torch import load_file
    Image.MAX_IMAGE_PIXELS = None  # some have hundreds of millions
    tensors = load_file(network)
    numbers = sorted({int(name.split(".")[1]) for name in tensors if name.startswith("features.")})
    layers = []
    for place, number in enumerate(numbers):
        weight = tensors[f"features.{number}.weight"].float()
        convolution = torch.nn.Conv2d(weight.shape[1], weight.shape[0], 3, padding=1)
        convolution.weight.data, convolution.bias.data = weight, tensors[f"features.{number}.bias"].float()
        layers += [convolution, torch.nn.ReLU()]
        if place + 1 < len(numbers) and numbers[place + 1] == number + 3:
            layers.append(torch.nn.MaxPool2d(2))
    model = torch.nn.Sequential(*layers)
    statistics = json.loads((out / "features" / "statistics.json").read_text("utf-8"))
    size = statistics["size"]
    ours, _ = read_part(out / "features", "train")
    with open(out / "features" / "pictures.csv", encoding="utf-8", newline="") as file:
        paths = [row["path"] for row in csv.DictReader(file) if row["part"] == "train"]
    largest = 0.0
    with torch.no_grad():
        for path, expected in list(zip(paths, ours))[:PICTURES]:
            image = ImageOps.exif_transpose(Image.open(pictures / path)).convert("RGBA")
            alpha = numpy.asarray(image, numpy.float32)[..., 3:] / 255
            background = numpy.array(statistics["background"], numpy.float32)
            colours = numpy.asarray(image, numpy.float32)[..., :3] * alpha + background * (1 - alpha)
            x = torch.from_numpy(numpy.rint(colours)).permute(2, 0, 1)[None]
            height, width = x.shape[2:]
            longer = int(size * max(height, width) / min(height, width))
            scaled = (size, longer) if height <= width else (longer, size)
            x = torch.nn.functional.interpolate(x, scaled, mode="bilinear", antialias=True) / 255
            top, left = (scaled[0] - size) // 2, (scaled[1] - size) // 2
            x = x[..., top:top + size, left:left + size]
            x = (x - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(DEVIATION).view(3, 1, 1)
            found = model(x).mean(dim=(2, 3)).flatten().numpy()
            difference = numpy.abs(found - expected).max() / numpy.abs(expected).max()
            largest = max(largest, float(difference))
    print(f"features of PyTorch, {PICTURES} pictures: {largest:.1e} of the largest value apart at most")
    return largest <= FEATURE_BAR


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--pictures", type=pathlib.Path)
    parser.add_argument("--network", type=pathlib.Path)
    options = parser.parse_args()
    fine = compare_with_regressions(options.out)
    if options.pictures:
        network = options.network or options.out / "features" / "network.safetensors"
        fine = compare_with_torch(options.out, options.pictures, network) and fine
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
