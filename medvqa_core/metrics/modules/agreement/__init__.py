"""The `evaluate` module agreement."""
