"""The library against PyTorch, hand-worked values and properties."""
