"""How a dead letter is named at a shell."""

from typing import Annotated

import typer

Place = Annotated[str, typer.Argument(metavar="AGENT/CHANNEL/SEQUENCE", help="One of them, as list names it.")]


def item_at(place: str) -> tuple[str, str, int]:
    """Recipient, channel and sequence; ends the verb where it is none."""
    recipient, _, rest = place.partition("/")
    channel, _, sequence = rest.partition("/")
    if not (recipient and channel and sequence.isascii() and sequence.isdecimal()):
        raise typer.BadParameter(f"{place!r} is not of the form AGENT/CHANNEL/SEQUENCE, such as qa/product/12")
    return recipient, channel, int(sequence)
