"""Where an agent's sidecar listens: from arguments, else from the environment.

    config=PATH               MULTICLAW_CONFIG   the deployment's multiclaw.toml: its Unix socket is derived
    socket=PATH               MULTICLAW_SOCKET   the Unix socket itself
    url=URL with token=TEXT   MULTICLAW_URL      loopback TCP; the token also from MULTICLAW_TOKEN,
      or token_file=PATH                         a token file also from MULTICLAW_TOKEN_FILE

Arguments win over the environment; of the environment, the most specific wins: socket, then URL, then
configuration. `MULTICLAW_PATHS__RUN` overrides the file's `paths.run`, as it does for the sidecar itself.
`RUNTIME_DIRECTORY` is not read: in an agent's own unit it names the agent's folder, not the sidecar's.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from multiclaw.client.errors import ConfigurationError

_NAME: Final = re.compile(r"[a-z0-9-]{1,63}")
_UNIX_PATH_BYTES_MAX: Final = 107
"""`sun_path` holds 108 bytes with the closing NUL (unix(7))."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One sidecar: a Unix socket, or a base URL with a bearer token."""

    agent: str
    socket: Path | None = None
    url: str = "http://sidecar"
    token: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.url if self.socket is None else str(self.socket)


@dataclass(frozen=True, slots=True)
class Location:
    """What a caller said about where the sidecar is; resolved by `find`."""

    config: str | os.PathLike[str] | None = None
    socket: str | os.PathLike[str] | None = None
    url: str | None = None
    token: str | None = field(default=None, repr=False)
    token_file: str | os.PathLike[str] | None = None


def find(agent: str, said: Location, environ: Mapping[str, str]) -> Endpoint:
    """The endpoint of `agent`; raises `ConfigurationError` that says what to do."""
    if not _NAME.fullmatch(agent):
        raise ConfigurationError(f"{agent!r} is not an agent's name: use 1 to 63 of a-z, 0-9 and '-'")
    kind, where = _where(said, environ)
    if kind == "url":
        return Endpoint(agent, None, _checked_url(os.fspath(where)), _token(said, environ))
    if said.token is not None or said.token_file is not None:
        raise ConfigurationError("a token is for a url; a Unix socket needs none")
    path = Path(where) if kind == "socket" else _socket_from_config(agent, Path(where), environ)
    return Endpoint(agent, _checked_socket(path))


def _where(said: Location, environ: Mapping[str, str]) -> tuple[str, str | os.PathLike[str]]:
    places = {"config": said.config, "socket": said.socket, "url": said.url}
    given = [(kind, where) for kind, where in places.items() if where is not None]
    if len(given) > 1:
        raise ConfigurationError(f"give one of config, socket and url, not {' and '.join(kind for kind, _ in given)}")
    if given:
        return given[0]
    for kind in ("socket", "url", "config"):
        value = environ.get(f"MULTICLAW_{kind.upper()}")
        if value:
            return kind, value
    raise ConfigurationError(
        "where is the sidecar? Give config='DIR/multiclaw.toml', socket=PATH or url=URL with a token, "
        "or set MULTICLAW_CONFIG, MULTICLAW_SOCKET or MULTICLAW_URL"
    )


def _checked_socket(path: Path) -> Path:
    path = path.absolute()
    length = len(os.fsencode(path))
    if length > _UNIX_PATH_BYTES_MAX:
        raise ConfigurationError(f"the socket path {path} has {length} bytes; the limit is {_UNIX_PATH_BYTES_MAX}")
    return path


def _checked_url(url: str) -> str:
    if not re.fullmatch(r"https?://[^/?#]+/?", url):
        raise ConfigurationError(f"{url!r} is not a sidecar's address; it looks like http://127.0.0.1:8101")
    return url.rstrip("/")


def _token(said: Location, environ: Mapping[str, str]) -> str | None:
    """The bearer token; none at all is for development deployments, whose sidecars ask for none."""
    token_file = said.token_file
    if said.token is None and token_file is None:
        token, token_file = environ.get("MULTICLAW_TOKEN"), environ.get("MULTICLAW_TOKEN_FILE")
    else:
        token = said.token
    if token is None and token_file:
        try:
            token = Path(token_file).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"the token file {token_file} cannot be read: {error}") from error
    if token is not None and not re.fullmatch(r"[\x21-\x7e]+", token):
        raise ConfigurationError("the token is empty, or holds what no HTTP header can carry")
    return token


def _socket_from_config(agent: str, config: Path, environ: Mapping[str, str]) -> Path:
    document = _read(config)
    agents = document.get("agents")
    if not isinstance(agents, dict) or agent not in agents:
        close = difflib.get_close_matches(agent, list(agents or ()), n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ConfigurationError(f"{config} has no agent {agent!r}.{hint}")
    paths = document.get("paths", {})
    run = environ.get("MULTICLAW_PATHS__RUN") or (paths.get("run", "run") if isinstance(paths, dict) else "run")
    if not isinstance(run, str):
        raise ConfigurationError(f"{config}: paths.run must be text")
    return config.absolute().parent / run / f"sidecar-{agent}.sock"


def _read(config: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(config.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"there is no configuration at {config}; make one with: multiclaw init --dir {config.parent}"
        ) from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{config} cannot be read: {error}") from error
