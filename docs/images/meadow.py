#!/usr/bin/env python3
"""Draws a meadow: blades of grass in focus before blurred ones, and a few flowers. Needs Pillow.

usage: meadow.py FILE.png [SIDE]
"""
import math
import random
import sys

from PIL import Image, ImageDraw, ImageFilter

OVER = 3  # drawn so many times larger, so that edges are smooth


def blade(draw, rng, side, width, shade):
    """One blade: from the lower border, tapered and bent, with a lighter half and veins."""
    x, y = rng.uniform(-0.1, 1.1) * side, side * rng.uniform(0.9, 1.15)
    angle, bend = rng.gauss(-math.pi / 2, 0.25), rng.gauss(0, 0.9)
    length, steps = side * rng.uniform(0.5, 1.1), 60
    left, middle, right = [], [], []
    for i in range(steps + 1):
        t = i / steps
        w = width * side * (1 - t) ** 0.7 * min(1, 0.4 + 3 * t)
        nx, ny = -math.sin(angle), math.cos(angle)
        left.append((x + w * nx, y + w * ny))
        middle.append((x, y))
        right.append((x - w * nx, y - w * ny))
        x += length / steps * math.cos(angle)
        y += length / steps * math.sin(angle)
        angle += bend / steps
    light = [min(255, int(c * shade)) for c in (132, 178, 62)]
    dark = [int(c * shade) for c in (64, 116, 34)]
    draw.polygon(left + middle[::-1], fill=tuple(light))
    draw.polygon(middle + right[::-1], fill=tuple(dark))
    for part in (0.35, 0.7):
        vein = [(m[0] + part * (a[0] - m[0]), m[1] + part * (a[1] - m[1])) for a, m in zip(left, middle)]
        draw.line(vein, fill=tuple(int(0.82 * c) for c in light), width=max(1, side // 700))


def flower(draw, rng, side):
    x, y, radius = rng.uniform(0.1, 0.9) * side, rng.uniform(0.1, 0.6) * side, side * rng.uniform(0.05, 0.08)
    turn, petals = rng.uniform(0, 1), rng.randint(11, 15)
    for petal in range(petals):
        angle = turn + 2 * math.pi * petal / petals
        points = []
        for i in range(25):
            t = 2 * math.pi * i / 24
            along, across = radius * (0.62 + 0.42 * math.cos(t)), radius * 0.15 * math.sin(t)
            points.append((x + along * math.cos(angle) - across * math.sin(angle),
                           y + along * math.sin(angle) + across * math.cos(angle)))
        light = rng.randint(222, 250)
        draw.polygon(points, fill=(light, light, light - rng.randint(0, 12)), outline=(176, 178, 190))
        draw.line([points[0], (x, y)], fill=(204, 204, 214), width=max(1, side // 600))
    for _ in range(220):
        r, a = radius * 0.3 * math.sqrt(rng.random()), rng.uniform(0, 2 * math.pi)
        dot, gold = radius * 0.035, rng.randint(170, 240)
        cx, cy = x + r * math.cos(a), y + r * math.sin(a)
        draw.ellipse((cx - dot, cy - dot, cx + dot, cy + dot), fill=(gold, int(gold * 0.78), 24))


def main():
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 512
    side, rng = OVER * size, random.Random(5)
    image = Image.new("RGB", (side, side), (88, 118, 74))
    for width, shade, blades, blur in ((0.02, 0.62, 60, 0.012), (0.014, 0.8, 60, 0.005), (0.009, 1.0, 70, 0)):
        draw = ImageDraw.Draw(image)
        for _ in range(blades):
            blade(draw, rng, side, width * rng.uniform(0.6, 1.3), shade * rng.uniform(0.75, 1.2))
        if blur:
            image = image.filter(ImageFilter.GaussianBlur(blur * side))
    draw = ImageDraw.Draw(image)
    for _ in range(6):
        flower(draw, rng, side)
    image.resize((size, size), Image.LANCZOS).save(sys.argv[1])


main()
