"""WGSL as a tree: ``parser`` makes it, ``tree`` has its nodes, ``module`` says what the names of a text mean."""
