"""Real files of awkward kinds: orientation, palette, alpha, 16 bits, corrupt and truncated ones."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from calib8.data.images import IMAGES, _opened, eight_bit, read_image
from calib8.errors import DataError

PIXELS = np.random.default_rng(11).integers(0, 256, (6, 9, 3), dtype=np.uint8)

# What each EXIF orientation asks a viewer to do with the stored pixels.
UPRIGHT = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: np.rot90(a, 1),
}


def decoded(path: Path, gray: bool = False) -> np.ndarray:
    return np.asarray(eight_bit(read_image(path, path.name), gray, path.name))


@pytest.mark.parametrize("orientation", list(UPRIGHT))
@pytest.mark.parametrize("suffix", ["png", "tiff"])
def test_exif_orientation_is_applied_once(tmp_path: Path, orientation: int, suffix: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"turned.{suffix}"
    Image.fromarray(PIXELS).save(path, exif=exif)
    assert np.array_equal(decoded(path), UPRIGHT[orientation](PIXELS))
    # and for an image that a caller opened
    with Image.open(path) as image:
        assert np.array_equal(np.asarray(eight_bit(image, False, "x")), UPRIGHT[orientation](PIXELS))


def test_alpha_is_dropped_not_blended(tmp_path: Path) -> None:
    alpha = np.random.default_rng(1).integers(0, 256, (6, 9, 1), dtype=np.uint8)
    path = tmp_path / "alpha.png"
    Image.fromarray(np.concatenate([PIXELS, alpha], axis=2)).save(path)
    assert np.array_equal(decoded(path), PIXELS)


@pytest.mark.parametrize("transparency", [None, 1, bytes([0, 128, 255])])
def test_palette_with_and_without_transparency(tmp_path: Path, transparency: int | bytes | None) -> None:
    indices = np.array([[0, 1], [2, 1]], np.uint8)
    image = Image.frombytes("P", (2, 2), indices.tobytes())
    image.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90])
    path = tmp_path / "palette.png"
    image.save(path, **({} if transparency is None else {"transparency": transparency}))
    colors = np.array([[10, 20, 30], [40, 50, 60], [70, 80, 90]], np.uint8)
    assert np.array_equal(decoded(path), colors[indices])


def test_gray_16_bit_keeps_the_upper_byte(tmp_path: Path) -> None:
    values = np.array([[0, 255, 256], [40000, 65279, 65535]], np.uint16)
    path = tmp_path / "deep.png"
    Image.fromarray(values).save(path)
    expected = (values >> 8).astype(np.uint8)
    assert np.array_equal(decoded(path, gray=True), expected)
    assert np.array_equal(decoded(path), np.repeat(expected[:, :, None], 3, axis=2))


def test_32_bit_beyond_16_is_refused() -> None:
    image = Image.fromarray(np.array([[70000]], np.int32))
    with pytest.raises(DataError, match=r"deep: holds pixels 70000 … 70000"):
        eight_bit(image, True, "deep")


def test_float_pixels_are_refused() -> None:
    with pytest.raises(DataError, match="floating-point pixels"):
        eight_bit(Image.fromarray(np.zeros((2, 2), np.float32)), True, "f")


@pytest.mark.parametrize("mode", ["1", "L", "LA", "CMYK", "YCbCr", "HSV"])
def test_other_modes_become_rgb_and_gray(mode: str) -> None:
    image = Image.fromarray(PIXELS).convert(mode)
    rgb = eight_bit(image, False, "x")
    assert rgb.mode == "RGB"
    assert np.array_equal(np.asarray(rgb), np.asarray(image.convert("RGB")))
    assert eight_bit(image, True, "x").mode == "L"


def test_gray_file_stays_gray(tmp_path: Path) -> None:
    path = tmp_path / "gray.png"
    Image.fromarray(PIXELS[:, :, 0]).save(path)
    assert np.array_equal(decoded(path, gray=True), PIXELS[:, :, 0])


@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp", "gif", "webp", "tiff"])
def test_truncated_file_is_named(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"whole.{suffix}"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(path)
    cut = tmp_path / f"cut.{suffix}"
    cut.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match=f"photos/cut.{suffix}: cannot be decoded as an image"):
        read_image(cut, f"photos/cut.{suffix}")


@pytest.mark.parametrize(
    "content", [b"", b"no image at all", b"\x89PNG\r\n\x1a\n" + b"\0" * 40, b"\xff\xd8\xff"]
)
def test_corrupt_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.png"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"bad\.png: cannot be decoded"):
        read_image(path, "bad.png")


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.png: does not exist"):
        read_image(tmp_path / "gone.png", "gone.png")


def test_image_files_are_sorted_recursive_and_only_images(tmp_path: Path) -> None:
    for name in (
        "b.JPG",
        "a.png",
        "sub/c.jpeg",
        "sub/notes.txt",
        ".hidden.png",
        ".cache/d.png",
        "A.png",
        "d.npy",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "folder.png").mkdir()
    assert IMAGES.below(tmp_path) == ["A.png", "a.png", "b.JPG", "sub/c.jpeg"]


def test_folder_without_images_is_refused(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").touch()
    with pytest.raises(DataError, match="holds no image file"):
        IMAGES.below(tmp_path)


def test_a_broken_file_is_not_asked_for_more_than_it_has(tmp_path: Path) -> None:
    """Pillow asks for as many bytes as a chunk states, and Python takes memory for all of them first."""
    (tmp_path / "a.png").write_bytes(bytes(range(100)))
    tracemalloc.start()
    try:
        with _opened(tmp_path / "a.png") as file:
            assert file.read(10) == bytes(range(10))
            assert file.read(1 << 32) == bytes(range(10, 100))
            assert file.read(1 << 32) == file.read() == b""
            file.seek(90)
            assert file.read() == bytes(range(90, 100))
        assert tracemalloc.get_traced_memory()[1] < 1 << 26
    finally:
        tracemalloc.stop()
