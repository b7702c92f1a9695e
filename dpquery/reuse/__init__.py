"""Answers that were paid for: stored releases, what follows from them, and how they are combined."""
