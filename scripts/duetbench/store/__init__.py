"""The files of `results/`: their types, one reader, one writer, and the branch that keeps them."""
