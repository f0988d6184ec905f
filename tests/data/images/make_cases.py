"""Writes cases.jsonl with TensorFlow's and Pillow's own output: python make_cases.py (README.md says what is in it)."""

import base64
import io
import json
import os
import random
import struct
import zlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from PIL import Image, ImageOps  # noqa: E402

FOLDER = os.path.dirname(os.path.abspath(__file__))
ORIENTATION = 0x0112


def texture(height, width, seed):
    """Slopes, waves, an edge, a disc, and some noise, of four channels."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    channels = []
    for channel in range(4):
        phase = seed + 1.7 * channel
        values = 128 + 70 * np.sin(x / (3.0 + channel) + phase) * np.cos(y / (4.0 + phase % 3)) + 2 * x - y
        values += 60 * ((x * (1 + channel) > y * 2) - 0.5)
        disc = (x - width * 0.6) ** 2 + (y - height * 0.4) ** 2 < (5 + 2 * channel) ** 2
        channels.append(np.where(disc, 255 - values, values))
    noise = np.random.default_rng(seed).normal(0, 6, (height, width, 4))
    return np.clip(np.stack(channels, -1) + noise, 0, 255).astype(np.uint8)


def jpeg(pixels, mode="RGB", **options):
    out = io.BytesIO()
    Image.fromarray(pixels, mode).save(out, "JPEG", **{"quality": 85, **options})
    return out.getvalue()


def with_sampling(data, old, new):
    """The first component's sampling factors changed: the blocks of an MCU stand for other places."""
    at = next(i for i in range(len(data)) if data[i] == 0xFF and data[i + 1] in (0xC0, 0xC2)) + 11
    assert data[at] == old
    return data[:at] + bytes([new]) + data[at + 1:]


def adobe_marker(data):
    at = data.index(b"\xff\xee")
    assert data[at + 4:at + 9] == b"Adobe"
    return at


def without_adobe(data):
    at = adobe_marker(data)
    return data[:at] + data[at + 16:]


def with_adobe_transform(data, transform):
    at = adobe_marker(data) + 15
    return data[:at] + bytes([transform]) + data[at + 1:]


def exif_with(orientation):
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    exif[0x010E] = "a picture"
    return exif.tobytes()


def jpeg_files():
    rgb = texture(45, 61, 1)[..., :3]
    square = texture(64, 64, 2)[..., :3]
    cmyk = texture(37, 43, 3)
    files = {"grey": jpeg(rgb[..., 0], "L"), "one_pixel": jpeg(rgb[:1, :1]), "one_column": jpeg(rgb[:, :1]),
             "low_quality": jpeg(rgb, quality=20), "high_quality": jpeg(rgb, quality=98, subsampling=0),
             "progressive_grey": jpeg(rgb[..., 0], "L", progressive=True),
             "restarts": jpeg(rgb, restart_marker_blocks=3), "rgb": jpeg(rgb, keep_rgb=True),
             "optimized": jpeg(rgb, optimize=True)}
    for name, subsampling in [("444", 0), ("422", 1), ("420", 2)]:
        files[name] = jpeg(rgb, subsampling=subsampling)
        files["progressive_" + name] = jpeg(rgb, subsampling=subsampling, progressive=True)
    for name, options in [("", {}), ("progressive_", {"progressive": True})]:
        files[name + "440"] = with_sampling(jpeg(square, subsampling=1, **options), 0x21, 0x12)
        files[name + "411"] = with_sampling(jpeg(square, subsampling=2, **options), 0x22, 0x41)
    files["cmyk_of_adobe"] = jpeg(cmyk, "CMYK")
    files["cmyk_progressive"] = jpeg(cmyk, "CMYK", progressive=True)
    files["cmyk"] = without_adobe(files["cmyk_of_adobe"])
    files["ycck"] = with_adobe_transform(files["cmyk_of_adobe"], 2)
    for orientation in range(1, 9):
        files[f"orientation_{orientation}"] = jpeg(rgb[:20, :27], exif=exif_with(orientation))
    return files


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def packed_rows(samples, depth, filters):
    """Filtered rows of `samples` (height, width, channels), with the filter types in turn."""
    height, width, channels = samples.shape
    if depth == 16:
        rows = [row.astype(">u2").tobytes() for row in samples]
    elif depth == 8:
        rows = [row.astype(np.uint8).tobytes() for row in samples]
    else:
        bits = ((samples[..., 0][..., None] >> np.arange(depth - 1, -1, -1)) & 1).reshape(height, width * depth)
        rows = [np.packbits(row).tobytes() for row in bits.astype(np.uint8)]
    step = max(1, channels * depth // 8)
    out = b""
    before = bytes(len(rows[0])) if rows else b""
    for row in rows:
        kind = filters.choice(range(5))
        filtered = bytearray([kind])
        for i, value in enumerate(row):
            left = row[i - step] if i >= step else 0
            corner = before[i - step] if i >= step else 0
            up = before[i]
            guess = left + up - corner
            paeth = min((left, up, corner), key=lambda other: abs(guess - other))
            filtered.append((value - (0, left, up, (left + up) // 2, paeth)[kind]) & 255)
        out += bytes(filtered)
        before = row
    return out


ADAM7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


def png(samples, color, depth, interlaced=False, before=b"", after=b""):
    """A PNG of samples (height, width, channels); `before`, `after`: chunks around the pixels'."""
    height, width, _ = samples.shape
    filters = random.Random(height * width + depth)
    data = b""
    for top, left, rows, columns in ADAM7 if interlaced else [(0, 0, 1, 1)]:
        part = samples[top::rows, left::columns]
        if part.size:
            data += packed_rows(part, depth, filters)
    compressed = zlib.compress(data)
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, int(interlaced))
    middle = len(compressed) // 2
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before + chunk(b"IDAT", compressed[:middle]) +
            chunk(b"IDAT", compressed[middle:]) + after + chunk(b"IEND", b""))


def png_files():
    files = {}
    colors = texture(13, 11, 4).astype(np.int64)
    for color, depths in [(0, [1, 2, 4, 8, 16]), (2, [8, 16]), (3, [1, 2, 4, 8]), (4, [8, 16]), (6, [8, 16])]:
        for depth in depths:
            samples = colors[..., :CHANNELS[color]]
            if color == 4:
                samples = colors[..., [0, 3]]
            samples = samples * 256 + colors[..., ::-1][..., :samples.shape[2]] if depth == 16 else samples >> 8 - depth
            palette = b""
            if color == 3:
                count = 1 << depth
                palette = chunk(b"PLTE", bytes(random.Random(depth).randrange(256) for _ in range(3 * count)))
            transparent = {0: struct.pack(">H", int(samples[3, 4, 0])),
                           2: struct.pack(">3H", *(int(value) for value in samples[3, 4, :3])) if color == 2 else b"",
                           3: bytes([0, 100, 255, 17][:max(1, depth)])}
            for interlaced in [False, True]:
                name = f"type_{color}_depth_{depth}" + ("_interlaced" if interlaced else "")
                files[name] = png(samples, color, depth, interlaced, palette)
                if color in transparent:
                    extra = palette + chunk(b"tRNS", transparent[color])
                    files[name + "_transparent"] = png(samples, color, depth, interlaced, extra)
    rgb = colors[..., :3]
    gamma = chunk(b"gAMA", struct.pack(">I", 45455))
    linear = chunk(b"gAMA", struct.pack(">I", 100000))
    primaries = chunk(b"cHRM", struct.pack(">8I", 31270, 32900, 64000, 33000, 21000, 71000, 15000, 6000))
    files["gamma"] = png(rgb, 2, 8, before=gamma)
    files["linear_gamma"] = png(rgb, 2, 8, before=linear)
    files["primaries"] = png(rgb, 2, 8, before=primaries)
    files["primaries_and_gamma_of_16_bits"] = png(rgb * 257, 2, 16, before=gamma + primaries)
    files["srgb"] = png(rgb, 2, 8, before=chunk(b"sRGB", b"\0"))
    files["texts"] = png(rgb, 2, 8, before=chunk(b"zTXt", b"a\0\0" + zlib.compress(b"b" * 9999)),
                         after=chunk(b"tEXt", b"c\0d"))
    files["background_color"] = png(colors, 6, 8, before=chunk(b"bKGD", struct.pack(">3H", 1, 2, 3)))
    files["one_pixel"] = png(rgb[:1, :1], 2, 8)
    files["one_pixel_interlaced"] = png(rgb[:1, :1], 2, 8, True)
    for orientation in (3, 6):
        exif = exif_with(orientation)
        files[f"orientation_{orientation}"] = png(rgb, 2, 8, before=chunk(b"eXIf", exif.removeprefix(b"Exif\0\0")))
    return files


def output(pixels):
    pixels = np.ascontiguousarray(pixels, np.uint8)
    return {"shape": list(pixels.shape), "crc32": zlib.crc32(pixels.tobytes())}


def decoded(decode, change=lambda pixels: pixels, **options):
    try:
        return {**options, **output(change(decode().numpy()))}
    except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError):
        return {**options, "error": True}


def jpeg_case(name, data):
    outputs = [decoded(lambda: tf.io.decode_jpeg(data, channels=channels, ratio=scale, fancy_upscaling=True,
                                                 dct_method="INTEGER_ACCURATE"), channels=channels, scale=scale)
               for channels in (0, 1, 3) for scale in (1, 2, 4, 8)]
    return {"name": "jpeg_" + name, "file": base64.b64encode(data).decode(), "outputs": outputs}


def with_opaque_alpha(data):
    """Where there is no alpha TensorFlow gives the largest value of the stored depth, which is none of 8 bits."""
    depth, color = data[24:26]
    if depth >= 8 or b"tRNS" in data:
        return lambda pixels: pixels
    assert color in (0, 3)
    return lambda pixels: np.concatenate([pixels[..., :3], np.full_like(pixels[..., :1], 255)], -1)


def png_case(name, data):
    outputs = [decoded(lambda: tf.io.decode_png(data, channels=channels), channels=channels, scale=1)
               for channels in (0, 1, 3)]
    outputs.append(decoded(lambda: tf.io.decode_png(data, channels=4), with_opaque_alpha(data), channels=4, scale=1))
    return {"name": "png_" + name, "file": base64.b64encode(data).decode(), "outputs": outputs}


def upright(data):
    """Turned by Pillow, of the pixels that TensorFlow decodes."""
    orientation = Image.open(io.BytesIO(data)).getexif().get(ORIENTATION, 1)
    pixels = tf.io.decode_image(data, channels=3).numpy() if data[:1] == b"\x89" else tf.io.decode_jpeg(
        data, channels=3, fancy_upscaling=True, dct_method="INTEGER_ACCURATE").numpy()
    image = Image.fromarray(pixels)
    image.getexif()[ORIENTATION] = orientation
    turned = np.array(ImageOps.exif_transpose(image))
    return {"channels": 3, "scale": 1, "upright": orientation, **output(turned)}


def main():
    cases = [jpeg_case(name, data) for name, data in jpeg_files().items()]
    cases += [png_case(name, data) for name, data in png_files().items()]
    for case in cases:
        if "orientation" in case["name"]:
            case["outputs"].append(upright(base64.b64decode(case["file"])))
    with open(os.path.join(FOLDER, "cases.jsonl"), "w") as file:
        for case in cases:
            file.write(json.dumps(case) + "\n")
    print(len(cases), "files", sum("error" in output for case in cases for output in case["outputs"]), "errors")


if __name__ == "__main__":
    main()
