"""Write book/_static/model.svg: the paper's Figure 1, each box a link to its chapter.

The front page of the book shows it with its links, the README as a picture.
``make notebooks`` runs it, and tests/test_front_page.py compares the file with it.
"""

import sys
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
import make_map

DRAWING = make_map.ROOT / "book" / "_static" / "model.svg"
WIDTH, HEIGHT = 560, 640
COLUMN, BOX, STEP = 192, 30, 42
"""Width of a column of boxes, height of a box, and from one box to the next."""
ENCODER, DECODER = 44, 324
"""Left edges of the two columns."""
MIDDLE = COLUMN // 2

# The colours of the book's figures, and lighter ones of the same hues for dark mode.
LIGHT = {
    "ink": "#24292f",
    "plain": "#7f868d",
    "attention": "#0072b2",
    "network": "#8f4fb3",
    "embedding": "#6b7a1f",
    "encoder": "#4c9bd6",
    "decoder": "#a65628",
}
DARK = {
    "ink": "#e6e8ea",
    "plain": "#8b939b",
    "attention": "#56b4e9",
    "network": "#c58be0",
    "embedding": "#b3c25a",
    "encoder": "#4c9bd6",
    "decoder": "#d08a5c",
}
RULES = """
.model-map { font: 14px Helvetica, Arial, sans-serif; }
.model-map text { fill: var(--ink); }
.model-map .number { font-weight: 700; text-anchor: end; }
.model-map .middle { text-anchor: middle; }
.model-map .small { font-size: 12.5px; }
.model-map a { text-decoration: none; }
.model-map .box rect { fill-opacity: 0.12; stroke-width: 1.3; }
.model-map a:is(:hover, :focus) > rect { fill-opacity: 0.35; }
.model-map .frame { fill: none; stroke-width: 1.6; }
.model-map .flow { fill: none; marker-end: url(#model-map-tip); }
.model-map .flow, .model-map .plain rect { stroke: var(--plain); }
.model-map .plain rect, .model-map marker path { fill: var(--plain); }
"""


class Box(NamedTuple):
    """One part of the model."""

    x: int
    y: int
    label: str
    stem: str
    """The chapter that builds it."""
    kind: str = "plain"
    """What decides its colour."""
    width: int = COLUMN
    height: int = BOX

    def draw(self) -> str:
        """Draw the box with its label, its chapter's number, and its link."""
        title = make_map.chapter_titles()[self.stem]
        number = title.partition(" ")[0]
        y = self.y + 20
        end = self.x + self.width - 9
        inside = (
            f'<rect x="{self.x}" y="{self.y}" width="{self.width}" '
            f'height="{self.height}" rx="5"/>'
            f'<text x="{self.x + 9}" y="{y}">{escape(self.label)}</text>'
            f'<text class="number" x="{end}" y="{y}">{number}</text>'
        )
        name = f"<title>{escape(title)}</title>"
        address = f"../notebooks/{self.stem}.html"
        return f'<a class="box {self.kind}" href="{address}">{name}{inside}</a>'


def column(x: int, bottom: int, *parts: tuple[str, str, str]) -> list[Box]:
    """Stack boxes one above the other, the first at the bottom."""
    return [Box(x, bottom - STEP * level, *part) for level, part in enumerate(parts)]


STACKS = "03_1_encoder_and_decoder_stacks"
USES = "03_2_3_applications_of_attention_in_our_model"
EMBEDDINGS = "03_4_embeddings_and_softmax"
NORM = ("Add and norm", STACKS)
FEED_FORWARD = ("Feed-forward", "03_3_position_wise_feed_forward_networks", "network")
INPUT = [
    ("Embedding", EMBEDDINGS, "embedding"),
    ("Position", "03_5_positional_encoding"),
]
ENCODER_LAYER = column(
    *(ENCODER, 406, ("Self-attention", USES, "attention"), NORM, FEED_FORWARD, NORM),
)
DECODER_LAYER = column(
    *(DECODER, 406, ("Masked self-attention", USES, "attention"), NORM),
    *(("Cross-attention", USES, "attention"), NORM, FEED_FORWARD, NORM),
)
OTHERS = [
    *column(ENCODER, 510, *INPUT),
    *column(DECODER, 510, *INPUT),
    Box(
        *(ENCODER, 552, "Subwords and batches", "05_1_training_data_and_batching"),
        width=DECODER + COLUMN - ENCODER,
    ),
    Box(DECODER, 126, "Linear and softmax", EMBEDDINGS, "embedding"),
    Box(DECODER, 78, "Loss", "05_4_regularization", width=88),
    Box(DECODER, 36, "Adam", "05_3_optimizer", width=88),
    Box(DECODER + 104, 78, "Search", "06_1_machine_translation", width=88),
    Box(ENCODER - 20, 8, "The whole model", "03_model_architecture", width=COLUMN + 40),
    Box(
        *(ENCODER - 20, 66, "Multi-head attention", "03_2_2_multi_head_attention"),
        *("attention", COLUMN + 40, 116),
    ),
    Box(
        *(ENCODER - 6, 98, "Scaled dot-product", "03_2_1_scaled_dot_product_attention"),
        *("attention", COLUMN + 12, 48),
    ),
]


def line(*points: tuple[int, int]) -> str:
    """Draw a line through these points that ends in an arrow."""
    return f'<path class="flow" d="M{" L".join(f"{x} {y}" for x, y in points)}"/>'


def text(x: int, y: int, words: str, kind: str = "middle") -> str:
    """Draw words that belong to no box."""
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(words)}</text>'


def stack(layer: list[Box], kind: str, label: str) -> list[str]:
    """Draw a layer's frame and name, and the ways past its sub-layers."""
    x, top, bottom = layer[0].x, layer[-1].y - 12, layer[0].y + BOX + 16
    drawn = [
        f'<rect class="frame" style="stroke: var(--{kind})" x="{x - 20}" y="{top}" '
        f'width="{COLUMN + 40}" height="{bottom - top}" rx="10"/>',
        text(x - 20, top - 7, label, "small"),
    ]
    for part, norm in zip(layer[::2], layer[1::2], strict=True):
        below, beside, into = part.y + BOX + 7, x - 10, norm.y + BOX // 2
        drawn.append(
            line((x + MIDDLE, below), (beside, below), (beside, into), (x, into))
        )
    return drawn


def flows() -> list[str]:
    """Draw the way of the data from box to box."""
    drawn = []
    for layer in (ENCODER_LAYER, DECODER_LAYER):
        x = layer[0].x + MIDDLE
        heights = [598, 552, 510, 468, *(part.y for part in layer)]
        drawn += [line((x, low), (x, high + BOX)) for low, high in pairwise(heights)]
    top, read = ENCODER_LAYER[-1].y, DECODER_LAYER[2].y + BOX // 2
    encoder, decoder = ENCODER + MIDDLE, DECODER + MIDDLE
    between = (ENCODER + COLUMN + DECODER) // 2
    memory = [(encoder, top), (encoder, top - 24), (between, top - 24)]
    drawn.append(line(*memory, (between, read), (DECODER, read)))
    drawn.append(line((decoder, DECODER_LAYER[-1].y), (decoder, 126 + BOX)))
    loss, search = DECODER + 44, DECODER + 148
    drawn.append(line((loss, 126), (loss, 78 + BOX)))
    drawn.append(line((loss, 78), (loss, 36 + BOX)))
    drawn.append(line((search, 126), (search, 78 + BOX)))
    drawn.append(line((search, 78), (search, 58)))
    return drawn


def words() -> list[str]:
    """Draw what goes in, what comes out, and what the inset shows."""
    return [
        text(ENCODER + MIDDLE, 614, "The cat sleeps."),
        text(DECODER + MIDDLE, 614, "BOS Die Katze schläft."),
        text(DECODER + 148, 34, "Die Katze"),
        text(DECODER + 148, 50, "schläft."),
        text(DECODER + 44, 24, "training", "middle small"),
        text(ENCODER + 3, 136, "attention: Equation 1", "start"),
        text(ENCODER - 11, 170, "in every attention box", "small"),
    ]


def style() -> str:
    """Return colours for both modes; the system or the book's switch chooses."""

    def colours(values: dict[str, str]) -> str:
        return "".join(f"--{name}: {value}; " for name, value in values.items())

    kinds = ("attention", "network", "embedding")
    return (
        f".model-map {{ {colours(LIGHT)}}}\n"
        f"@media (prefers-color-scheme: dark) {{ .model-map {{ {colours(DARK)}}} }}\n"
        f'html[data-theme="light"] .model-map {{ {colours(LIGHT)}}}\n'
        f'html[data-theme="dark"] .model-map {{ {colours(DARK)}}}'
        + RULES
        + "\n".join(
            f".model-map .{kind} rect {{ fill: var(--{kind}); stroke: var(--{kind}); }}"
            for kind in kinds
        )
    )


def render() -> str:
    """Return the whole drawing."""
    parts = [
        *stack(ENCODER_LAYER, "encoder", "Encoder: 6 layers"),
        *stack(DECODER_LAYER, "decoder", "Decoder: 6 layers"),
        *flows(),
        *(box.draw() for box in [*OTHERS, *ENCODER_LAYER, *DECODER_LAYER]),
        *words(),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="model-map" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" role="group" '
        'aria-label="The Transformer, part by part">\n'
        f"<style>\n{style()}\n</style>\n"
        '<marker id="model-map-tip" viewBox="0 0 6 6" refX="5.5" refY="3" '
        'markerWidth="5" markerHeight="5" orient="auto"><path d="M0 0 L6 3 L0 6 z"/>'
        "</marker>\n" + "\n".join(parts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    DRAWING.write_text(render(), encoding="utf-8")
    print(f"wrote {DRAWING.relative_to(make_map.ROOT)}")
