"""How fast: what `llamapy bench` measures, and the ceilings it is measured against.

Flags and figures mean what llama-bench means by them: `params` reads lists and makes the tests,
`measure` runs them, `roofline` finds what the machine could do, `report` writes it down.
`synthetic` makes a model of a real shape out of random weights.
"""
