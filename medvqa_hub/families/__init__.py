"""Model families: what training, evaluation and loading ask of a model, a file for each and one table."""
