"""Generates questions from annotations and contexts."""
