"""Training: study-grouped batches, recipes, the supervised and the self-critical trainer."""
