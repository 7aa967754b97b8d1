"""Pictures with a palette of 256 colours, in two fifths of the space."""

import base64
import io

import numpy as np
from PIL import Image

COLORS, COMMONEST = 256, 128
LARGEST_MOVE = 12
"""How far, of 255, the red, green or blue of a point may move."""


def with_palette(png: str) -> str:
    """Return a picture (base64) with a palette, if the eye sees no difference.

    The commonest colours, which fill areas, stay exact. The rare ones are blends at the
    edges of lines and letters, and each moves to a neighbour. Pillow's own methods move
    either areas visibly or edges far.

    A picture with a palette, with transparent points, or in which a point would move
    further than `LARGEST_MOVE`, stays as it is.
    """
    picture = Image.open(io.BytesIO(base64.b64decode(png)))
    if picture.mode != "RGBA" or picture.getextrema()[3] != (255, 255):
        return png
    points = np.asarray(picture.convert("RGB"), dtype=np.int32)
    codes, where, counts = np.unique(
        points @ [1 << 16, 1 << 8, 1], return_inverse=True, return_counts=True
    )
    colors = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=1)
    palette = colors[np.argsort(-counts, kind="stable")[:COMMONEST]]
    moves = _distances(colors, palette).min(axis=1)
    while len(palette) < min(COLORS, len(colors)):
        palette = np.vstack([palette, colors[moves.argmax()]])
        moves = np.minimum(moves, _distances(colors, palette[-1:])[:, 0])
    if moves.max() > LARGEST_MOVE:
        return png
    nearest = _distances(colors, palette).argmin(axis=1)
    numbers = nearest[where].reshape(points.shape[:2]).astype(np.uint8)
    small, file = Image.fromarray(numbers), io.BytesIO()
    small.putpalette(palette.astype(np.uint8).tobytes())
    small.save(file, "PNG", optimize=True, dpi=picture.info["dpi"])
    return base64.b64encode(file.getvalue()).decode("ascii")


def _distances(colors: np.ndarray, palette: np.ndarray) -> np.ndarray:
    """Return how far each colour (rows) lies from each of a palette (columns)."""
    return np.abs(colors[:, None] - palette).max(axis=2)
