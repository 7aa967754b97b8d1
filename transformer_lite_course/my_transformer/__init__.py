"""Your Transformer: every file is a part to write, in the order of the book.

Each function raises `NotImplementedError` until you write it. Check a part, or all:

    transformer-lite grade my_transformer attention
    transformer-lite grade my_transformer
"""
