"""Shapes in signatures are checked while these tests run, and Hypothesis tries the same examples each time."""

from hypothesis import settings
from jaxtyping import install_import_hook

# Only the modules whose signatures carry shapes: elsewhere the library's own refusals are what the tests ask for,
# and a checker would raise before them. `test_package.py` sees to it that the list is complete.
SHAPED = (
    "attention.block",
    "attention.comparing",
    "attention.differing_scene",
    "attention.dropout",
    "attention.einsum",
    "attention.feed_forward",
    "attention.finite_mask",
    "attention.four_ways",
    "attention.head_counts",
    "attention.ladder",
    "attention.layer_norm",
    "attention.mask_config",
    "attention.mask_lessons",
    "attention.masks",
    "attention.multi_head",
    "attention.precision",
    "attention.predicting",
    "attention.reference",
    "attention.reference_block",
    "attention.sample",
    "attention.scaled_dot_product",
    "attention.single_head",
    "attention.trained.inputs",
    "attention.trained.measuring",
    "attention.trained.model",
    "attention.trained.reference_model",
    "attention.trained.task",
)

install_import_hook(list(SHAPED), "beartype.beartype")

settings.register_profile("attention", derandomize=True, database=None, deadline=None, max_examples=60)
settings.load_profile("attention")
