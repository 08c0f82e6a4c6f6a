"""Evaluation on MIMIC-CXR-VQA: predictions first, then the tables."""
