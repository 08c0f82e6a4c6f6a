"""Answering questions about report images: the engines, the questions as rows, the rules without a model."""
