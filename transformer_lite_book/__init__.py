"""What only the chapters use: figures, recordings, and the models before this one."""
