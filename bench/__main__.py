"""`python -m bench`: the verb `multiclaw bench` by itself."""

import sys

import typer

from bench.command import register
from multiclaw.cli.exits import INTERRUPTED, Exit


def main() -> None:
    """Run it; the exit status is that of the verb."""
    application = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    register(application)
    try:
        application()
    except Exit as end:
        print(f"bench: {end.words}", file=sys.stderr)
        sys.exit(end.status)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
