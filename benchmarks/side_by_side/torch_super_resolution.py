"""The side of PyTorch in super_resolution.py, which gives it one request (JSON) on standard input and reads one answer
from the last line of its output. Needs torch, safetensors, protobuf and numpy.

The same network, losses and order of rows as examples/super_resolution: pairs of images as they are, in the order of
the shards, batch after batch; Adam."""
import json
import math
import resource
import sys
import time
from pathlib import Path

import numpy
import torch
from prepared_rows import make_example_class, records
from safetensors.torch import load_file
from torch.nn import functional

SLOPE = 0.2
DENSE_BLOCKS, CONVOLUTIONS = 3, 5
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
DEVIATION = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)


def oihw(kernel):
    return kernel.permute(3, 2, 0, 1).contiguous()


def same(size, stride, kernel=3):
    """Zeros before and after, as TensorFlow's SAME has them."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def convolve(x, weight, bias, stride=1):
    if stride == 1:
        return functional.conv2d(x, weight, bias, padding=weight.shape[-1] // 2)
    (top, bottom), (left, right) = (same(size, stride) for size in x.shape[2:])
    return functional.conv2d(functional.pad(x, (left, right, top, bottom)), weight, bias, stride)


class Weights(torch.nn.Module):
    """Parameters by their names in our files, kernels as PyTorch wants them."""

    def __init__(self, tensors):
        super().__init__()
        self.by_name = torch.nn.ParameterDict({
            name.replace(".", "/"): torch.nn.Parameter(oihw(value) if value.dim() == 4 else value.clone())
            for name, value in tensors.items()})

    def __getitem__(self, name):
        return self.by_name[name.replace(".", "/")]


class Generator(Weights):
    def __init__(self, tensors, config):
        super().__init__(tensors)
        self.config = config
        assert not config["depthwise"]

    def layer(self, name, x):
        return convolve(x, self[f"{name}.weight"], self[f"{name}.bias"])

    def dense_block(self, name, x):
        parts = [x]
        for i in range(CONVOLUTIONS):
            made = self.layer(f"{name}.conv{i + 1}", torch.cat(parts, 1))
            parts.append(made if i + 1 == CONVOLUTIONS else functional.leaky_relu(made, SLOPE))
        return x + self.config["residual_scale"] * parts[-1]

    def forward(self, x):
        first = x = self.layer("conv_first", x)
        for block in range(self.config["blocks"]):
            before = x
            for dense in range(DENSE_BLOCKS):
                x = self.dense_block(f"body.{block}.rdb{dense + 1}", x)
            x = before + self.config["residual_scale"] * x
        x = first + self.layer("conv_body", x)
        for name in ("conv_up1", "conv_up2"):
            # Ours is [height, width, out, in], so that oihw gives [in, out, height, width].
            made = functional.conv_transpose2d(x, self[f"{name}.weight"], self[f"{name}.bias"], stride=2)
            x = functional.leaky_relu(made[:, :, :2 * x.shape[2], :2 * x.shape[3]], SLOPE)
        return self.layer("conv_last", functional.leaky_relu(self.layer("conv_hr", x), SLOPE))


class Discriminator(Weights):
    def forward(self, x):
        i = 0
        while f"conv{i}/weight" in self.by_name:
            x = convolve(x, self[f"conv{i}.weight"], self[f"conv{i}.bias"], 1 + i % 2)
            x = functional.leaky_relu(x, SLOPE)
            i += 1
        x = functional.linear(x.mean((2, 3)), self["linear1.weight"], self["linear1.bias"])
        return functional.linear(functional.leaky_relu(x, SLOPE), self["linear2.weight"], self["linear2.bias"])


class Features:
    """A VGG's maps of the last convolution, before its ReLU; torchvision's names."""

    def __init__(self, path):
        self.tensors = load_file(path)
        self.layers = sorted({int(name.split(".")[1]) for name in self.tensors if name.startswith("features.")})

    def __call__(self, x):
        x = (x - MEAN) / DEVIATION
        for before, layer in zip([None, *self.layers], self.layers):
            if before is not None:
                x = functional.relu(x)
                if layer - before == 3:
                    x = functional.max_pool2d(x, 2)
            x = functional.conv2d(x, self.tensors[f"features.{layer}.weight"], self.tensors[f"features.{layer}.bias"],
                                  padding=1)
        return x


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def tensor_of(message):
    """The float32 values of a serialized TensorProto that has them as tensor_content, or packed float_val."""
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        if key & 7 == 2:
            length, at = varint(message, at)
            if key >> 3 in (4, 5):
                return numpy.frombuffer(message, numpy.float32, length // 4, at)
            at += length
        else:
            _, at = varint(message, at)
    raise ValueError("a TensorProto without values")


def read_pairs(folder, crop):
    """(low, high), each [rows, 3, side, side], in the order that the shards were written in: row i in shard i mod n."""
    example_class = make_example_class()
    shards = [[dict((pair.key, pair.value.bytes.value[0]) for pair in example_class.FromString(record).features.feature)
               for record in records(path)] for path in sorted(Path(folder).glob("dataset.*.tfrecord"))]
    rows = [shards[i % len(shards)][i // len(shards)] for i in range(sum(map(len, shards)))]
    return [torch.from_numpy(numpy.stack([tensor_of(row[name]).reshape(side, side, 3) for row in rows])
                             ).permute(0, 3, 1, 2).contiguous()
            for name, side in (("low_res_image", crop // 4), ("high_res_image", crop))]


def psnr(generator, pairs):
    with torch.no_grad():
        values = [10 * torch.log10(1 / ((generator(low[None]).clamp(0, 1) - high[None]) ** 2).mean())
                  for low, high in zip(*pairs)]
    return float(torch.stack(values).mean())


def train(request):
    torch.manual_seed(0)
    model = Path(request["model"])
    config = json.loads((model / "config.json").read_text("utf-8"))
    tensors = load_file(request["weights"])
    part = lambda name: {key.removeprefix(name): value for key, value in tensors.items() if key.startswith(name)}
    generator = Generator(part("generator."), config)
    factors = request["factors"]
    discriminator = Discriminator(part("discriminator.")) if factors["adversarial"] else None
    features = Features(model / "features.safetensors") if factors["perceptual"] else None
    channels_last = request["form"] != "eager"
    if channels_last:
        for module in filter(None, (generator, discriminator)):
            module.to(memory_format=torch.channels_last)
    compiled = torch.compile(generator) if request["form"] == "compiled" else generator
    adam = lambda module: torch.optim.Adam(module.parameters(), request["rate"])
    optimizers = [adam(module) for module in filter(None, (generator, discriminator))]
    pairs = read_pairs(request["train"], request["crop"])
    losses, seconds = [], []
    bce = functional.binary_cross_entropy_with_logits
    for step in range(request["steps"]):
        begin = time.perf_counter()
        at = [(step * request["batch"] + i) % len(pairs[0]) for i in range(request["batch"])]
        low, high = (images[at] for images in pairs)
        if channels_last:
            low, high = (images.contiguous(memory_format=torch.channels_last) for images in (low, high))
        made = compiled(low)
        loss = factors["absolute"] * functional.l1_loss(made, high)
        if features:
            with torch.no_grad():
                wanted = features(high)
            loss = loss + factors["perceptual"] * functional.l1_loss(features(made), wanted)
        of_discriminator = None
        if discriminator:
            real, fake = discriminator(high), discriminator(made)
            sides = real - fake.mean(), fake - real.mean()
            ones, zeros = torch.ones_like(real), torch.zeros_like(real)
            loss = loss + factors["adversarial"] * (bce(sides[0], zeros) + bce(sides[1], ones)) / 2
            of_discriminator = (bce(sides[0], ones) + bce(sides[1], zeros)) / 2
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        if of_discriminator is not None:
            gradients = torch.autograd.grad(loss, list(generator.parameters()), retain_graph=True)
            for parameter, gradient in zip(generator.parameters(), gradients):
                parameter.grad = gradient
            gradients = torch.autograd.grad(of_discriminator, list(discriminator.parameters()))
            for parameter, gradient in zip(discriminator.parameters(), gradients):
                parameter.grad = gradient
        else:
            loss.backward()
        for optimizer in optimizers:
            # Ours adds epsilon to the root that is not corrected.
            optimizer.param_groups[0]["eps"] = 1e-8 / math.sqrt(1 - 0.999 ** (step + 1))
            optimizer.step()
        losses.append(float(loss))
        seconds.append(time.perf_counter() - begin)
    timed = seconds[request["untimed"]:]
    answer = {"losses": losses, "rows_per_s": request["batch"] * len(timed) / sum(timed),
              "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
    if request["held_out"]:
        answer["psnr"] = psnr(generator, read_pairs(request["held_out"], request["crop"]))
    return answer


def main():
    request = json.load(sys.stdin)
    torch.set_num_threads(request["threads"])
    print(json.dumps(train(request)))


main()
