"""BERTScore."""
