"""A page on which a trained model translates in the browser, without a server."""
