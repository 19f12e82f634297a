"""x."""

import typer


def register(a: typer.Typer) -> None:
    """x."""
