"""The classic mistakes, each the right attention or block with one piece replaced.

Each has a name, one line of what it is, how it shows, the step at which it must be named, and the public thread
where people met it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from attention.bugs import wrong
from attention.bugs.pieces import RIGHT, RIGHT_BLOCK, BlockPieces, Pieces
from attention.scaled_dot_product import softmax

Piece = Callable[..., object]


@dataclass(frozen=True)
class Bug:
    """One mistake.

    `step` is the first step that it breaks, in an attention alone or in a block whose norms come after; `pre_norm`
    in one whose norms come first. `right` is for what looks like a mistake and is none: there the verdict must stay
    green. `instead` is the right code to be shown beside it, where that is not the piece that it replaces.
    """

    key: str
    name: str
    what: str
    shows: str
    step: str
    thread: str
    pieces: BlockPieces
    pre_norm: str
    right: bool = False
    instead: Piece | None = None

    @property
    def of_block(self) -> bool:
        """Whether it is a mistake of the block around the attention."""
        return self.pieces.attention is RIGHT

    def first_step(self, norm_first: bool | None = None) -> str:
        """The step that a report must name, in an attention alone (None) or in a block with its norms there."""
        step = self.pre_norm if norm_first else self.step
        return step if norm_first is None or self.of_block else f"attention.{step}"

    @property
    def swaps(self) -> tuple[tuple[Piece, Piece], ...]:
        """The right pieces, each with the wrong one that stands in for it."""
        return tuple((self.instead or right, put) for right, put in _swapped(self.pieces))


def joined(first: Bug, second: Bug | None) -> BlockPieces:
    """The pieces of two bugs at once; where both replace the same one, the second's."""
    if second is None:
        return first.pieces
    attention = replace(first.pieces.attention, **_replaced(second.pieces.attention, RIGHT))
    around = {name: piece for name, piece in _replaced(second.pieces, RIGHT_BLOCK).items() if name != "attention"}
    return replace(first.pieces, attention=attention, **around)


def _replaced(pieces: Pieces | BlockPieces, right: Pieces | BlockPieces) -> dict[str, Any]:
    every = {field.name: getattr(pieces, field.name) for field in fields(pieces)}
    return {name: piece for name, piece in every.items() if piece is not getattr(right, name)}


def _swapped(pieces: BlockPieces) -> Iterator[tuple[Piece, Piece]]:
    for name, piece in _replaced(pieces.attention, RIGHT).items():
        yield getattr(RIGHT, name), piece
    for name, piece in _replaced(pieces, RIGHT_BLOCK).items():
        if name != "attention":
            yield getattr(RIGHT_BLOCK, name) or RIGHT_BLOCK.norm, piece


def _of_attention(
    key: str, name: str, what: str, shows: str, step: str, thread: str, right: bool = False,
    instead: Piece | None = None, **pieces: Any,
) -> Bug:  # fmt: skip
    changed = BlockPieces(Pieces(**pieces))
    return Bug(key, name, what, shows, step, f"https://github.com/{thread}", changed, step, right, instead)


def _of_block(
    key: str, name: str, what: str, shows: str, step: str, thread: str, pre_norm: str = "", **pieces: Any
) -> Bug:
    changed = BlockPieces(**pieces)
    return Bug(key, name, what, shows, step, f"https://github.com/{thread}", changed, pre_norm or step)


BUGS: Final[tuple[Bug, ...]] = (
    _of_attention(
        "no-scale", "No scale",
        "The scores are not divided by √D.",
        "Rows are too sharp: one key takes nearly all. Every row still sums to 1.",
        "scaled", "lucidrains/vit-pytorch/issues/65", scale=wrong.no_scale,
    ),
    _of_attention(
        "embed-scale", "Scale by embed dim",
        "The scores are divided by √E, the width of all heads together, and not by √D.",
        "Rows are too even; shapes and row sums are right.",
        "scaled", "omihub777/ViT-CIFAR/pull/11", scale=wrong.scale_by_embed_dim,
    ),
    _of_attention(
        "scale-twice", "Scaled twice",
        "The scores are divided by √D, and once more.",
        "Rows are nearly even.",
        "scaled", "esceptico/perceiver-io/issues/9", scale=wrong.scale_twice,
    ),
    _of_attention(
        "softmax-axis", "Softmax over the wrong axis",
        "The softmax runs over the queries and not over the keys.",
        "Columns sum to 1 and rows do not.",
        "weights", "PetrochukM/PyTorch-NLP/issues/2", normalise=wrong.softmax_over_queries,
    ),
    _of_attention(
        "mask-inverted", "Mask inverted",
        "True was taken for blocked, as nn.MultiheadAttention means it.",
        "Every token sees the future only; the last row sees nothing.",
        "masked", "rasbt/LLMs-from-scratch/issues/1061", mask=wrong.mask_inverted,
    ),
    _of_attention(
        "mask-off-by-one", "Mask off by one",
        "triu(2) where triu(1) was meant: each token sees one ahead.",
        "One more diagonal is lit.",
        "masked", "rasbt/LLMs-from-scratch/issues/60", mask=wrong.mask_off_by_one,
    ),
    _of_attention(
        "upper-triangle", "Upper for lower triangle",
        "The mask lets the upper triangle through, and not the lower.",
        "The picture is mirrored along its diagonal.",
        "masked", "pytorch/pytorch/issues/21518", mask=wrong.mask_of_upper_triangle,
    ),
    _of_attention(
        "mask-after-softmax", "Mask after the softmax",
        "Forbidden weights are set to 0 after the softmax, and the rest of the row is left as it is.",
        "Rows sum to less than 1, early rows to the least.",
        "weights", "rasbt/LLMs-from-scratch/issues/279", normalise=wrong.softmax_then_mask,
    ),
    _of_attention(
        "mask-renormalised", "Mask after the softmax, then divided by the row's sum",
        "Forbidden weights are set to 0 after the softmax, then each row is divided by its sum.",
        "Nothing: it is another way to the same weights.",
        "weights", "rasbt/LLMs-from-scratch/issues/279", True, normalise=wrong.softmax_then_mask_then_renormalise,
    ),
    _of_attention(
        "masked-zero", "Masked scores set to 0",
        "Forbidden scores become 0, and exp(0) is 1.",
        "The future gets a fair share of each row.",
        "masked", "hyunwoongko/transformer/issues/10", mask=wrong.masked_scores_zero,
    ),
    _of_attention(
        "ten-thousand", "−1e4 for −∞",
        "A large number is added to forbidden scores, one that float16 can still hold.",
        "In the masked scores only, until scores are large or a row has no key.",
        "masked", "facebookresearch/fairseq/issues/3575", mask=wrong.masked_by_ten_thousand,
    ),
    _of_attention(
        "plain-softmax", "Softmax without its maximum",
        "exp of the scores as they are; their row's maximum is not taken off first.",
        "Nothing, until a score is over 88 (float32; 11 in float16, 709 in float64): then infinity over infinity.",
        "weights", "pytorch/executorch/pull/18407", instead=softmax, normalise=wrong.plain_softmax,
    ),
    _of_attention(
        "view-split", "Heads split by view",
        "view(B, H, T, D) at once, without the transpose.",
        "Tokens and heads are mixed; every shape is right.",
        "q", "reczoo/FuxiCTR/issues/30", split=wrong.split_by_view,
    ),
    _of_attention(
        "view-merge", "Heads merged by view",
        "The transpose back is missing.",
        "The weights are right, the output is not.",
        "merged", "jsbaan/transformer-from-scratch/pull/6", merge=wrong.merge_by_view,
    ),
    _of_attention(
        "interleaved", "Interleaved heads",
        "Every H-th number goes to a head, and not a block of D.",
        "Weights that were trained for the other order give other maps.",
        "q", "tenstorrent/tt-metal/issues/6243", split=wrong.split_interleaved,
    ),
    _of_attention(
        "q-for-k", "q and k swapped",
        "Keys ask, and queries answer.",
        "The scores are mirrored along the diagonal.",
        "scores", "Khaliladib11/Transformer-from-scratch/issues/1", score=wrong.keys_ask,
    ),
    _of_attention(
        "k-for-v", "k for v",
        "The keys are mixed, and not the values.",
        "The weights are right, the context is not.",
        "v", "Khaliladib11/Transformer-from-scratch/issues/1", values=wrong.keys_for_values,
    ),
    _of_attention(
        "no-bias-in", "Bias in dropped",
        "The projections to q, k and v forget their bias.",
        "Nothing while biases are 0, as modules begin.",
        "q", "paiml/entrenar/issues/258", project=wrong.without_bias,
    ),
    _of_attention(
        "no-bias-out", "Bias out dropped",
        "The projection out forgets its bias.",
        "The output is off by the same vector everywhere.",
        "output", "paiml/entrenar/issues/258", project_out=wrong.without_bias,
    ),
    _of_attention(
        "not-transposed", "Weights not transposed",
        "x W where x Wᵀ is meant; a square weight hides it.",
        "Everything is other numbers of the right size.",
        "q", "AutoGPTQ/AutoGPTQ/pull/139", project=wrong.weight_not_transposed,
    ),
    _of_attention(
        "no-projection", "No projection out",
        "The heads are put side by side and never mixed.",
        "The output is the merged context.",
        "output", "Kyubyong/transformer/issues/117", project_out=wrong.no_projection,
    ),
    _of_attention(
        "dropout-on", "Dropout left on",
        "The functional call drops weights in eval mode too.",
        "The weights shown look right; the context is random.",
        "context", "pytorch/pytorch/issues/124464", after=wrong.dropout_left_on,
    ),
    _of_attention(
        "averaged", "Averaged heads shown as per head",
        "The module's default averages over heads.",
        "All maps are the same; context and output are right.",
        "weights", "pytorch/pytorch/issues/34537", show=wrong.averaged_over_heads,
    ),
    _of_block(
        "norm-elsewhere", "Norm placement swapped",
        "The norm stands before where it should come after, or the other way round.",
        "The stream grows with depth, or does not.",
        "norm_1", "pytorch/pytorch/issues/61165", "attention.q", place=wrong.norm_elsewhere,
    ),
    _of_block(
        "norm-eps", "Wrong LayerNorm eps",
        "eps is 1e-12, as in another family of models, and not 1e-5.",
        "Nothing that eyes could see, and nothing at a tolerance of 1e-5.",
        "norm_1", "huggingface/transformers/pull/585", norm=wrong.norm_with_small_eps,
    ),
    _of_block(
        "unbiased-variance", "Unbiased variance",
        "LayerNorm divides by the deviation over n − 1, and eps stands outside the root.",
        "Every normed row is a little too short.",
        "norm_1", "codertimo/BERT-pytorch/issues/30", norm=wrong.norm_by_unbiased_variance,
    ),
    _of_block(
        "no-residual", "Residual left out",
        "What attention and network give out replaces the stream; it is not added.",
        "Tokens lose what they were.",
        "sum_1", "poloclub/transformer-explainer/issues/32", add=wrong.no_residual,
    ),
    _of_block(
        "no-second-norm", "Second norm left out",
        "Only the first of the two norms is there.",
        "The output, or what the network gets, is not normed.",
        "norm_2", "keyvank/femtoGPT/issues/29", second_norm=wrong.no_norm,
    ),
    _of_block(
        "relu", "ReLU for GELU",
        "The default of nn.TransformerEncoderLayer is relu.",
        "No hidden number is negative.",
        "activated", "OpenNMT/OpenNMT-py/issues/1952", activate=wrong.always_relu,
    ),
    _of_block(
        "tanh-gelu", "GELU by tanh",
        "The approximation by tanh stands in for the exact form by erf.",
        "Off by 5e-4 at most: pictures are the same.",
        "activated", "kyutai-labs/pocket-tts/pull/278", activate=wrong.gelu_by_tanh,
    ),
    _of_block(
        "mask-not-passed", "Mask built and not passed",
        "The block makes a mask, and its attention never gets it.",
        "The hatched half is full of weight.",
        "attention.masked", "hkproj/pytorch-llama/issues/15", pass_on=wrong.mask_not_passed,
    ),
)  # fmt: skip
BY_KEY: Final = {bug.key: bug for bug in BUGS}
