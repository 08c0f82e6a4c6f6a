"""Training of any image-text model by TRL: supervised and by rewards, whole or by an adapter."""
