"""Pictures to calibrate with and to judge with, for ``task_networks.py``: from photographs, always the same.

    photographs  as they are, and mosaics of 2×2 and 3×3 of them: more objects, and smaller ones
    characters   large turned letters and digits on photographs
    words        lines of words on photographs
    lines        4 to 7 letters and digits on a bright ground, gray, 160×64 pixels
    texts        one line of words, colours on a ground of colour, 320×48 pixels
    labels       one line of 4 to 8 lower-case letters and digits, gray, 128×32 pixels
    faces        squares around the faces that a detector finds, shifted and mirrored until they are enough

What is calibrated with comes from DATA/imagenet/calib, what is judged with from DATA/imagenet/eval and
DATA/photos. Fonts are the one that Pillow brings along. PNG keeps every pixel.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image, ImageDraw, ImageFont

Box = tuple[float, float, float, float]
"""Corners x, y, x, y in pixels."""

SIDE: Final = 480
CALIBRATION: Final = 100
MOSAICS_OF_100: Final = 70
SIGNS: Final = string.ascii_letters + string.digits
LINE: Final = (160, 64)
TEXT: Final = (320, 48)
LABEL: Final = (128, 32)
LABEL_SIGNS: Final = string.digits + string.ascii_lowercase
MOST_SIGNS: Final = 8
WORDS: Final = (
    "water",
    "bread",
    "open",
    "closed",
    "street",
    "garden",
    "station",
    "market",
    "museum",
    "library",
    "coffee",
    "morning",
    "evening",
    "winter",
    "summer",
    "north",
    "south",
    "river",
    "bridge",
    "school",
    "office",
    "number",
    "seven",
    "eleven",
    "forty",
    "silver",
    "orange",
    "yellow",
    "paper",
    "window",
    "ticket",
    "platform",
    "entrance",
    "danger",
    "private",
    "parking",
    "slow",
    "exit",
    "welcome",
    "fresh",
)
FACE_MARGIN: Final = 0.15
"""What a square around a face has more on every side, as a share of it."""
SHIFT: Final = 0.08


def photographs(folders: Sequence[Path]) -> list[Path]:
    """The pictures of folders, by name."""
    ends = (".jpg", ".jpeg", ".png")
    return [file for folder in folders for file in sorted(folder.iterdir()) if file.suffix.lower() in ends]


def sources(data: Path) -> dict[str, list[Path]]:
    """Photographs of which calibration and judged pictures are made; no file is in both."""
    return {
        "calibration": photographs([data / "imagenet" / "calib"]),
        "judged": photographs([data / "photos", data / "imagenet" / "eval"]),
    }


def opened(file: Path) -> Image.Image:
    with Image.open(file) as image:
        return image.convert("RGB")


def square(image: Image.Image, side: int) -> Image.Image:
    """The middle of a picture."""
    least = min(image.size)
    left, top = (image.width - least) // 2, (image.height - least) // 2
    return image.resize((side, side), Image.Resampling.BICUBIC, (left, top, left + least, top + least))


def mosaic(files: Sequence[Path], tiles: int) -> Image.Image:
    """tiles·tiles photographs side by side."""
    whole, side = Image.new("RGB", (SIDE, SIDE)), SIDE // tiles
    for place, file in enumerate(files):
        whole.paste(square(opened(file), side), (place % tiles * side, place // tiles * side))
    return whole


def scenes(files: Sequence[Path], count: int, random: np.random.Generator) -> Iterator[Image.Image]:
    """``count`` pictures: three photographs to seven mosaics, every second of these 3×3."""
    alone = count - count * MOSAICS_OF_100 // 100
    for place in random.choice(len(files), alone, replace=alone > len(files)):
        yield opened(files[place])
    for number in range(count - alone):
        tiles = 2 + number % 2
        chosen = random.choice(len(files), tiles * tiles, replace=False)
        yield mosaic([files[place] for place in chosen], tiles)


def characters(files: Sequence[Path], count: int, random: np.random.Generator) -> Iterator[Image.Image]:
    """Pictures with 2 to 5 signs each, one in a field of its own."""
    for _ in range(count):
        picture = square(opened(files[random.integers(len(files))]), SIDE - SIDE % 3)
        field = picture.width // 3
        for place in random.choice(9, random.integers(2, 6), replace=False):
            sign = turned(SIGNS[random.integers(len(SIGNS))], int(random.integers(56, 105)), random)
            left = place % 3 * field + (field - sign.width) // 2
            picture.paste(colour(random), (left, place // 3 * field + (field - sign.height) // 2), sign)
        yield picture


def turned(text: str, size: int, random: np.random.Generator) -> Image.Image:
    """Text as a mask, turned by up to 35 degrees."""
    font = ImageFont.load_default(size)
    left, top, right, bottom = font.getbbox(text)
    mask = Image.new("L", (int(right - left) + 4, int(bottom - top) + 4))
    ImageDraw.Draw(mask).text((2 - left, 2 - top), text, 255, font)
    return mask.rotate(float(random.uniform(-35, 35)), Image.Resampling.BICUBIC, expand=True)


def colour(random: np.random.Generator) -> tuple[int, int, int]:
    red, green, blue = (int(part) for part in random.integers(0, 256, 3))
    return red, green, blue


def words(files: Sequence[Path], count: int, random: np.random.Generator) -> Iterator[Image.Image]:
    """Pictures with 2 to 5 lines of words each, bright on dark or dark on bright."""
    for _ in range(count):
        picture = square(opened(files[random.integers(len(files))]), SIDE)
        rows = random.choice(8, random.integers(2, 6), replace=False)
        for row in rows:
            font = ImageFont.load_default(int(random.integers(18, 42)))
            said = " ".join(random.choice(WORDS, random.integers(1, 4)))
            dark = bool(random.integers(2))
            start = (int(random.integers(4, SIDE // 3)), int(row) * SIDE // 8 + 4)
            ground, ink = ("white", "black") if dark else ("black", "white")
            ImageDraw.Draw(picture).text(start, said, ink, font, stroke_width=2, stroke_fill=ground)
        yield picture


def lines(files: Sequence[Path], count: int, random: np.random.Generator) -> Iterator[Image.Image]:
    """Gray lines of signs; the photographs are not used."""
    del files
    for _ in range(count):
        ground = random.normal(random.uniform(190, 245), 12, LINE[::-1])
        picture = Image.fromarray(np.clip(ground, 0, 255).astype(np.uint8))
        length = int(random.integers(4, 8))
        for place in range(length):
            sign = turned(SIGNS[random.integers(len(SIGNS))], int(random.integers(26, 40)), random)
            left = 6 + place * (LINE[0] - 12) // length
            top = int(random.integers(0, max(LINE[1] - sign.height, 1)))
            picture.paste(int(random.integers(0, 110)), (left, top), sign)
        yield picture


def texts(files: Sequence[Path], count: int, random: np.random.Generator) -> Iterator[Image.Image]:
    """Lines of one to four words, as large as fit; the photographs are not used."""
    del files
    for _ in range(count):
        said = " ".join(random.choice(WORDS, random.integers(1, 5)))
        if random.random() < 0.5:
            said = f"{said.title()} {random.integers(10, 1000)}"
        ground, ink = random.uniform(150, 255, 3), random.uniform(0, 110, 3)
        if random.random() < 0.5:
            ground, ink = ink, ground
        noisy = ground + random.normal(0, random.uniform(2, 14), (TEXT[1], TEXT[0], 3))
        picture = Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))
        size = int(random.integers(22, 36))
        while ImageFont.load_default(size).getlength(said) > TEXT[0] - 8:
            size -= 1
        place = (int(random.integers(2, 8)), int(random.integers(0, max(TEXT[1] - int(1.3 * size), 1))))
        red, green, blue = (int(part) for part in ink)
        ImageDraw.Draw(picture).text(place, said, (red, green, blue), ImageFont.load_default(size))
        yield picture


def labels(files: Sequence[Path], count: int, random: np.random.Generator) -> Iterator[Image.Image]:
    """Gray lines of letters and digits; the photographs are not used."""
    del files
    for _ in range(count):
        yield label(random)[1]


def label(random: np.random.Generator) -> tuple[str, Image.Image]:
    """A line and what it says: dark on bright or bright on dark, with noise, as large as fits."""
    said = "".join(random.choice(list(LABEL_SIGNS), random.integers(4, MOST_SIGNS + 1)))
    ground, ink = random.uniform(150, 255), random.uniform(0, 90)
    if random.random() < 0.5:
        ground, ink = ink, ground
    noisy = ground + random.normal(0, random.uniform(2, 20), LABEL[::-1])
    picture = Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))
    size = int(random.integers(18, 27))
    while ImageFont.load_default(size).getlength(said) > LABEL[0] - 6:
        size -= 1
    free = LABEL[0] - ImageFont.load_default(size).getlength(said)
    place = (random.uniform(2, free - 2), random.uniform(-2, LABEL[1] - 1.25 * size))
    ImageDraw.Draw(picture).text(place, said, int(ink), ImageFont.load_default(size))
    return said, picture


def faces(
    files: Sequence[Path], count: int, random: np.random.Generator, find: Callable[[Image.Image], list[Box]]
) -> Iterator[Image.Image]:
    """Squares of 112 pixels around faces: first all as they are, then mirrored and shifted ones.

    Raises:
        SystemExit: there is no face.
    """
    found = [(picture, box) for picture in map(opened, files) for box in find(picture)]
    if not found:
        raise SystemExit("No face was found in the photographs")
    for number in range(count):
        turn, place = divmod(number, len(found))
        picture, (left, top, right, bottom) = found[place]
        side = (1 + 2 * FACE_MARGIN) * max(right - left, bottom - top)
        shift = random.uniform(-SHIFT, SHIFT, 2) * side if turn else np.zeros(2)
        x, y = (left + right - side) / 2 + shift[0], (top + bottom - side) / 2 + shift[1]
        crop = picture.crop((round(x), round(y), round(x + side), round(y + side)))
        crop = crop.resize((112, 112), Image.Resampling.BICUBIC)
        yield crop.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if turn % 2 else crop


def written(pictures: Iterator[Image.Image], folder: Path) -> None:
    """Saves pictures under numbers."""
    folder.mkdir(parents=True)
    for number, picture in enumerate(pictures):
        picture.save(folder / f"{number:04d}.png")
