"""RadGraph, CheXbert and other scores of radiology texts, computed by RadEval in an environment of its own."""
