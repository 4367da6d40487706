"""From a GGUF file to weights in memory: reading, hyper-parameters, placement, loading."""
