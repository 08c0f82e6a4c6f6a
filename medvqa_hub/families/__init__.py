"""Model families: the interface that training, evaluation and loading use, with one file per model and a registry."""
