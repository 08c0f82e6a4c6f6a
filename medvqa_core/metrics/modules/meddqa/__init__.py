"""The `evaluate` module meddqa."""
