"""Write it yourself: the parts of a Transformer, and how they are graded.

- `my_transformer/` holds the parts as a reader gets them: docstrings and no bodies.
- `parts` lists, writes and loads them, with the book's, from `reference`, in place of
  those that are not written.
- `checks/` says what must hold of each part: at the top the sentences about well-known
  mistakes, below what each mistake gives. `comparison` compares.
- `grading` runs each check in a process of its own, on Linux and macOS.
- `toy_training` trains the reader's model. `verbs` has the commands.
- `exercises` serves the checks below the exercises of the book's chapters.
"""
