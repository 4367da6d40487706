"""From a batch to logits: ubatches, the graph key, the one loop, the engine that wires parts."""
