"""Pictures with a palette look as before, and take less space."""

import base64
import io

import numpy as np
from loading import load
from PIL import Image

palettes = load("tools/palettes.py")


def png(points, mode="RGBA"):
    file = io.BytesIO()
    Image.fromarray(points).convert(mode).save(file, "PNG", dpi=(220, 220))
    return base64.b64encode(file.getvalue()).decode("ascii")


def opened(text):
    return Image.open(io.BytesIO(base64.b64decode(text)))


def test_a_palette_keeps_areas_exact_moves_blends_little_and_is_given_once():
    points = np.full((101, 103, 3), 255, np.uint8)
    points[:50, :50] = 247, 238, 231  # near white, and large
    points[60, :, 0] = np.arange(103)  # lines of many rare colours
    points[62:66, :, 1] = np.arange(4 * 103).reshape(4, 103) % 256
    drawn = png(points)
    small = palettes.with_palette(drawn)
    assert opened(small).mode == "P"
    assert opened(small).info["dpi"] == opened(drawn).info["dpi"]
    moved = np.abs(np.asarray(opened(small).convert("RGB")) - points.astype(int))
    assert moved[:60].max() == moved[70:].max() == 0
    assert 0 < moved.max() <= 4
    assert palettes.with_palette(small) == small


def test_pictures_that_a_palette_would_change_visibly_stay_as_they_are():
    photo = np.random.default_rng(3).integers(256, size=(31, 37, 4), dtype=np.uint8)
    for points in (photo, np.full((3, 5, 4), 128, np.uint8)):  # the second lets through
        assert palettes.with_palette(png(points)) == png(points)
    photo[..., 3] = 255
    assert palettes.with_palette(png(photo)) == png(photo)
