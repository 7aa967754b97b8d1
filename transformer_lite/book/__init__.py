"""Code that only the chapters use: figures, recordings, and earlier models."""

from pathlib import Path

EXPLORER = Path(__file__).with_name("explorer.js")
"""The interactive map's script; its style sheet lies beside it. The page around a
model has it, too, and needs none of the chapters' libraries."""
