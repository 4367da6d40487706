"""State that outlives a graph: which cell holds which position of which sequence, and K and V."""
