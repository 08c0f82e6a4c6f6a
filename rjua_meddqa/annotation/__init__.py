"""Annotations: the released format, drafts from restored text, quality checks, exchange with Label Studio."""
