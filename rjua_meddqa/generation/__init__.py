"""Questions from annotations and contexts."""
