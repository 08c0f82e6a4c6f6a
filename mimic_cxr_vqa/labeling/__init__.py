"""Read report texts: sentences, mentions of findings with their fields, and four-valued labels."""
