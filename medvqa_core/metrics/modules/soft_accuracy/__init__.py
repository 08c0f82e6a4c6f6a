"""The `evaluate` module soft_accuracy."""
