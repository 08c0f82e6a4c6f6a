"""Sources of studies. Every source returns the same `StudySet`, so later steps do not depend on which one it was."""
