"""How well a model foretells: `windows` cuts a text, `perplexity` scores it, `base` and
`divergence` compare two models; `ledger` keeps what is done."""
