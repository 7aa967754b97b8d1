"""Text in, text out: translation, parsing and scores."""
