"""One folder per `evaluate` module: a script of the folder's name and its card."""
