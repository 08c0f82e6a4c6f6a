"""The explorer: a local page over releases, predictions, report pages and review samples (extra `app`)."""
