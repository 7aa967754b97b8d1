"""What the chapters alone need: figures, and the models before the Transformer."""
