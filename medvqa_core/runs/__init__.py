"""Resumable runs: records of answers, and the loop that sends requests."""
