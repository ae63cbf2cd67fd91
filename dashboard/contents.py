"""The pages, in the order of the navigation."""

from typing import Final

# file in app_pages, title, icon; the first is what opens
PAGES: Final = (
    ("heads", "Every head", "grid_view"),
    ("one_head", "One head, step by step", "footprint"),
    ("masks", "Masks", "background_grid_small"),
    ("head_counts", "How many heads", "account_tree"),
    ("four_ways", "Four ways, one answer", "fork_right"),
    ("block", "Transformer block", "layers"),
    ("break_it", "Break it", "bug_report"),
    ("precision", "Precision", "straighten"),
    ("pytorch_differs", "What PyTorch does differently", "difference"),
    ("compare", "Compare two settings", "compare"),
    ("predict", "Predict, then reveal", "psychology"),
    ("train", "Train", "model_training"),
    ("scenes", "Scenes worth showing", "school"),
)
TITLES: Final = {name: title for name, title, _ in PAGES}
