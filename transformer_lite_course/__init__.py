"""Write it yourself: the parts of a Transformer, and how they are graded."""
