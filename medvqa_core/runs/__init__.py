"""Runs that ask many questions: the record of an answer, and the loop that asks; resumable at any moment."""
