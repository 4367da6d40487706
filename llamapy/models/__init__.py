"""One file per architecture, named by the GGUF's own string; `registry.find` imports it."""
