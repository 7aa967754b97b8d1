"""A web page on which a trained model translates, and the explorer of its attention."""

from pathlib import Path

EXPLORER = Path(__file__).with_name("explorer.js")
"""The script of the attention explorer; its style sheet lies beside it."""
