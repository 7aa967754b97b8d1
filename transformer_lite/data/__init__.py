"""Where text comes from, what `prepare` writes, and how it is read."""
