"""Where studies come from. Every source yields the same `StudySet`; nothing downstream asks which one it was."""
