"""Gaps: sequences of a channel that were passed over.

A channel's sequences are contiguous from 1, so one number per channel is enough: the highest that was handed over. A
message above it reveals the sequences between as a gap, once. What comes later at or below it is a redelivery, or a
straggler of a gap already told.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from shared.lost_ranges import RESTORED, LostRange, Missing, explain, gap_document


def advance(
    highest: Mapping[str, int], arrived: Iterable[tuple[str, int]]
) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """New highest sequences of the channels that moved, and the gaps `{channel, from, to}` that this revealed.

    `arrived` is one hand-over: its order does not matter, so that neighbours in it are no gap.
    """
    moved: dict[str, int] = {}
    gaps: list[dict[str, Any]] = []
    for channel, sequence in sorted(arrived):
        known = moved.get(channel, highest.get(channel, 0))
        if sequence <= known:
            continue
        if sequence > known + 1:
            gaps.append({"channel": channel, "from": known + 1, "to": sequence - 1})
        moved[channel] = sequence
    return moved, gaps


def explained(gaps: Iterable[dict[str, Any]], lost: Mapping[str, Iterable[LostRange]]) -> list[dict[str, Any]]:
    """The same gaps, in parts where some of them is known to be lost."""
    return [
        gap_document(gap["channel"], part)
        for gap in gaps
        for part in explain(gap["from"], gap["to"], lost.get(gap["channel"], ()))
    ]


def news(highest: Mapping[str, int], lost: Mapping[str, Iterable[LostRange]]) -> list[dict[str, Any]]:
    """What was lost above the highest that was handed over: told without waiting for a message behind it, which may
    never come. What lies below is not: it was handed over, or told as a gap.
    """
    return [
        gap_document(channel, Missing(max(each.first, highest.get(channel, 0) + 1), each.last, RESTORED))
        for channel, ranges in lost.items()
        for each in ranges
        if each.last > highest.get(channel, 0)
    ]
