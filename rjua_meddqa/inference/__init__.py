"""Answers questions about report images: engines, prompts, questions as rows, and rules without a model."""
