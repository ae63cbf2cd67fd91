"""A small grammar of English-like sentences in which the verb agrees with a subject some words away.

    sentence = [preposition "the" noun ","] "the" [adjective] subject (preposition "the" [adjective] noun){0,2} verb "."

The verb is written without its number, "(sleep)". Nouns between subject and verb, and in front, have numbers of
their own, so that neither the nearest noun nor the first one tells.
"""

from collections.abc import Iterator
from typing import Final

import torch

from attention.trained.task import Batch, Task, nowhere

SUBJECT: Final = "the subject"
_LENGTH: Final = 32
_DRAWS: Final = 72  # three choices for every two words, and the last sentence may be cut off: at most 70
_NOUNS: Final = (("dog", "dogs"), ("cat", "cats"), ("bird", "birds"), ("boy", "boys"), ("tree", "trees"))
_VERBS: Final = (("sleeps", "sleep"), ("sings", "sing"), ("runs", "run"), ("is", "are"))
_STEMS: Final = ("(sleep)", "(sing)", "(run)", "(be)")
_ADJECTIVES: Final = ("old", "small", "red")
_PREPOSITIONS: Final = ("near", "behind", "under")
_VOCABULARY: Final = (
    *("the", ",", "."),
    *_ADJECTIVES,
    *_PREPOSITIONS,
    *(form for noun in _NOUNS for form in noun),
    *_STEMS,
    *(form for verb in _VERBS for form in verb),
)
_INDEX: Final = {word: index for index, word in enumerate(_VOCABULARY)}


def _sentences(generator: torch.Generator, size: int) -> Batch:
    """One sentence after the other; the last is cut off where the sequence ends."""
    chances = torch.rand(size, _DRAWS, generator=generator).tolist()
    tokens = torch.empty(size, _LENGTH, dtype=torch.long)
    targets, keys = torch.empty_like(tokens), nowhere(size, _LENGTH)
    for row in range(size):
        words, answers, subjects = _write(chances[row])
        tokens[row] = torch.tensor([_INDEX[word] for word in words])
        targets[row] = torch.tensor([_INDEX[word] for word in answers])
        keys[row] = torch.tensor(subjects)
    return Batch(tokens, targets, keys >= 0, {SUBJECT: keys})


def _write(chances: list[float]) -> tuple[list[str], list[str], list[int]]:
    """The words of one sequence, what is right at each, and where its subject stands (-1 but at verbs)."""
    words: list[str] = []
    answers: list[str] = []
    subjects: list[int] = []
    chance = iter(chances)
    while len(words) < _LENGTH:
        plain, stem, form, subject = _sentence(chance)
        subjects += [-1] * len(plain) + [len(words) + subject, -1]
        words += [*plain, stem, "."]
        answers += [*plain, form, "."]
    return words[:_LENGTH], answers[:_LENGTH], subjects[:_LENGTH]


def _sentence(chance: Iterator[float]) -> tuple[list[str], str, str, int]:
    """The words before the verb, the verb's stem and right form, and which word is the subject."""

    def pick(choices: int) -> int:
        return int(next(chance) * choices)

    def noun_phrase(number: int) -> list[str]:
        adjective = _ADJECTIVES[pick(len(_ADJECTIVES)) :][:1] if pick(2) else []
        return ["the", *adjective, _NOUNS[pick(len(_NOUNS))][number]]

    def at_some_place() -> list[str]:
        return [_PREPOSITIONS[pick(len(_PREPOSITIONS))], *noun_phrase(pick(2))]

    words = [*at_some_place(), ","] if pick(2) else []
    number = pick(2)
    words += noun_phrase(number)
    subject = len(words) - 1
    for _ in range((0, 1, 1, 2)[pick(4)]):
        words += at_some_place()
    verb = pick(len(_VERBS))
    return words, _STEMS[verb], _VERBS[verb][number], subject


AGREEMENT_TASK: Final = Task(
    name="agreement",
    says="Put each verb in the form that goes with its subject.",
    vocabulary=_VOCABULARY,
    length=_LENGTH,
    chance=0.5,
    patterns=(SUBJECT,),
    draw=_sentences,
)
