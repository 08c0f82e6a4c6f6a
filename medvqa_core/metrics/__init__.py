"""Scores: plain functions with a value per sample, and one `evaluate` module folder per metric."""
