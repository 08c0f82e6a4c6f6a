"""Report text to four-valued labels: sentences, mentions of findings, and the words that name them."""
