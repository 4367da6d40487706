"""Many prompts from JSON lines: `lines` reads them, `decoder` answers several at once, `out` keeps
what is done, `job` brings the three together."""
