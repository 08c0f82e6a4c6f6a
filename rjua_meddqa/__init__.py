"""RJUA-MedDQA: photographed Chinese medical reports restored to text, annotated, turned into questions and scored."""
