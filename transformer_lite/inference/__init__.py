"""Text in, text out: translation, scores, and export."""
