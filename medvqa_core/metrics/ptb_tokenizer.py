def tokenize(t): return t.split()
