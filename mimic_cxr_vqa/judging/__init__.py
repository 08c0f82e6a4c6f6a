"""Is the dataset right? A judge rates answers, people rate a sample, and both are set beside each other (Table 3)."""
