"""Code that only the chapters use: figures, recordings, and earlier models."""
