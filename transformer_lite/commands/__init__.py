"""The command line's verbs, one a module; what is not a verb helps to read them."""
