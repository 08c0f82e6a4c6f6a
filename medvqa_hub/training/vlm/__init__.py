"""`train vlm`: any image-text model of transformers, trained by TRL on the rows of both datasets."""
