"""Whether a file is what it should be: its structure, every number in it, its checksums."""
