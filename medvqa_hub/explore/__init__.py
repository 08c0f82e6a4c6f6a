"""The explorer: a local web page for releases, predictions, report pages and review samples (extra `app`)."""
