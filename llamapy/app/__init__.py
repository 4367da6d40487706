"""What a user does, as functions that yield events; printing them is the command line's part."""
