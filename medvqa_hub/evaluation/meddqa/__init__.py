"""Evaluation on RJUA-MedDQA: predictions first, then the tables."""
