"""The complete trainer: from one step to many processes."""
