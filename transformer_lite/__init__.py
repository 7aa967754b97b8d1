"""A Transformer built section by section from "Attention Is All You Need"."""
