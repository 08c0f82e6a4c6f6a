"""Check answers: a judge rates them, people rate a sample, and Table 3 compares the two."""
