"""`multiclaw.toml`: one file, read by every process of a deployment.

Environment variables override it: `MULTICLAW_LIMITS__QUEUE_MAX=1000` sets `queue_max` of `[limits]`; the value is
read as TOML where it is TOML, else as text. `STATE_DIRECTORY`, `RUNTIME_DIRECTORY` and `CREDENTIALS_DIRECTORY`,
as systemd sets them, replace the folders. Relations between limits are checked here, once.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidationError, model_validator

from shared.backups import Backups
from shared.escalation import Escalation
from shared.limits import (
    BATCH_BYTES_MAX,
    ENVELOPE_BYTES_MAX,
    LEASE_SECONDS_MAX,
    POLL_WAIT_SECONDS_MAX,
    UNIX_PATH_BYTES_MAX,
)
from shared.names import ADAPTER, RESERVED, direct_channel, hint, is_name
from shared.retention import ChannelRetention, Retention
from shared.section import Section
from shared.watching import Watching

EXIT_CONFIGURATION: Final = 78
"""`EX_CONFIG` of sysexits.h: a restart will not mend it, so systemd must not try."""

_ENV_PREFIX: Final = "MULTICLAW_"

_ENVELOPE_BYTES_LIMIT: Final = BATCH_BYTES_MAX - 64 * 1024
"""A message travels in a request of the link, with its signature and what wraps it; one that never could would stand
in an outbox for ever."""


class ConfigurationFault(Exception):  # noqa: N818 - "fault" is our word for what an operator mends
    """What is wrong with the configuration, where, and what to do."""


Role = Literal["orchestrator", "pm", "execution"]


class Agent(Section):
    """One agent. `port` 0 lets the kernel choose; `multiclaw status` tells which."""

    role: Role = "execution"
    port: Annotated[int, Field(ge=0, le=65535)] = 0


class Channel(Section):
    """One channel and its members, in the order recipients are reported."""

    members: list[str]


class Deployment(Section):
    """Properties of the whole. `development` opens loopback TCP without a token."""

    name: str = "multiclaw"
    development: bool = False


class Paths(Section):
    """Folders, relative to the file."""

    state: Path = Path("state")
    run: Path = Path("run")
    keys: Path = Path("keys")
    contracts: Path = Path("contracts")


class Limits(Section):
    """Bounds a deployment may tune. Times are in seconds."""

    envelope_bytes_max: Annotated[int, Field(ge=1024, le=_ENVELOPE_BYTES_LIMIT)] = ENVELOPE_BYTES_MAX
    queue_max: Annotated[int, Field(ge=1)] = 500
    queue_critical_reserve: Annotated[int, Field(ge=0)] = 100
    lease_seconds: Annotated[float, Field(gt=0, le=LEASE_SECONDS_MAX)] = 30.0
    attempts_max: Annotated[int, Field(ge=1, le=100)] = 3
    retry_base_seconds: Annotated[float, Field(ge=0)] = 1.0
    retry_cap_seconds: Annotated[float, Field(ge=0)] = 60.0
    alert_window_seconds: Annotated[float, Field(gt=0, le=3_600)] = 10.0
    outbox_max: Annotated[int, Field(ge=1)] = 1_000
    outbox_critical_reserve: Annotated[int, Field(ge=0)] | None = None
    outbox_days_max: Annotated[float, Field(gt=0)] = 14.0
    link_timeout_seconds: Annotated[float, Field(gt=0)] = 5.0
    health_poll_seconds: Annotated[float, Field(gt=0)] = 1.0
    breaker_failures: Annotated[int, Field(ge=1)] = 3
    breaker_reset_seconds: Annotated[float, Field(gt=0)] = 1.0
    breaker_reset_cap_seconds: Annotated[float, Field(gt=0)] = 30.0
    breaker_alarm_seconds: Annotated[float, Field(gt=0)] = 60.0
    store_probe_seconds: Annotated[float, Field(gt=0)] = 10.0
    poll_wait_seconds_max: Annotated[float, Field(ge=0, le=POLL_WAIT_SECONDS_MAX)] = POLL_WAIT_SECONDS_MAX

    @model_validator(mode="after")
    def _relations(self) -> "Limits":
        if self.retry_cap_seconds < self.retry_base_seconds:
            raise ValueError("retry_cap_seconds must not be under retry_base_seconds")
        if self.breaker_reset_cap_seconds < self.breaker_reset_seconds:
            raise ValueError("breaker_reset_cap_seconds must not be under breaker_reset_seconds")
        if self.outbox_reserve >= self.outbox_max:
            raise ValueError("outbox_critical_reserve must be under outbox_max: it is a part of it")
        return self

    @property
    def outbox_reserve(self) -> int:
        """The last places of an outbox, for critical messages alone: a twentieth where the file does not say."""
        return self.outbox_max // 20 if self.outbox_critical_reserve is None else self.outbox_critical_reserve


class Rate(Section):
    """How many messages of one class a sender may send: per second over time, and at once after a pause."""

    per_second: Annotated[int, Field(ge=1, le=1_000_000)]
    burst: Annotated[int, Field(ge=1, le=100_000_000)]


RATES_DEFAULT: Final = {
    "normal": Rate(per_second=200, burst=500),
    "critical": Rate(per_second=50, burst=250),
    "progress": Rate(per_second=100, burst=500),
}
"""For each sender apart. A whole deployment that sends 1,000,000 messages a day sends 12 a second, so only a loop meets
these. Rates: what one receiver, which takes some hundreds a second, keeps up with. Bursts: what comes at once fits one
recipient's queue of 500, so that neither a loop nor a full outbox that drains pushes others out of it. Critical ones
are never pushed out, so they get half of it. Only a deployment's own contracts need classes beyond these."""


class Integrity(Section):
    """How often every page of the adapter's store is read and verified in the background."""

    full_scan_hours: Annotated[float, Field(gt=0, le=720)] = 24.0


def _check_name(name: str) -> None:
    if not is_name(name):
        raise ValueError(f"{name!r} is not a name: use 1 to 63 of a-z, 0-9 and '-'")


class Membership(Section):
    """Who belongs to a deployment: the part of the file that is versioned, and changed only as a human approves."""

    agents: dict[str, Agent]
    channels: dict[str, Channel]

    @model_validator(mode="after")
    def _names(self) -> Self:
        for name in (*self.agents, *self.channels):
            _check_name(name)
        for name in self.agents:
            if name in RESERVED:
                raise ValueError(f"the agent name {name!r} is reserved; choose another")
        for channel, spec in self.channels.items():
            for member in spec.members:
                if member not in self.agents and member != ADAPTER:
                    raise ValueError(
                        f"channel {channel!r} has the unknown member {member!r}.{hint(member, self.agents)}"
                    )
            if len(set(spec.members)) != len(spec.members):
                raise ValueError(f"channel {channel!r} names a member twice")
        return self


class Config(Membership):
    """The whole file, with every path absolute."""

    deployment: Deployment = Deployment()
    paths: Paths = Paths()
    limits: Limits = Limits()
    retention: Retention = Retention()
    rates: dict[str, Rate] = Field(default_factory=dict)
    escalation: Escalation = Escalation()
    integrity: Integrity = Integrity()
    watch: Watching = Watching()
    backups: Backups = Backups()

    @model_validator(mode="after")
    def _rates(self) -> Self:
        for name in self.rates:
            _check_name(name)
        return self

    @model_validator(mode="after")
    def _retention(self) -> Self:
        known = {*self.channels, *map(direct_channel, self.agents)}
        for channel in self.retention.channels:
            if channel not in known:
                raise ValueError(f"retention.channels: there is no channel {channel!r}.{hint(channel, known)}")
        if self.limits.outbox_days_max >= self.retention.shortest_days:
            raise ValueError(
                f"limits.outbox_days_max ({self.limits.outbox_days_max:g}) must be under the shortest retention "
                f"({self.retention.shortest_days:g} days): what leaves an outbox must find its key remembered"
            )
        return self

    @property
    def rate_classes(self) -> dict[str, Rate]:
        """Every class there is, with its rate."""
        return RATES_DEFAULT | self.rates

    @property
    def membership(self) -> Membership:
        """Its agents and channels alone."""
        return Membership(agents=self.agents, channels=self.channels)

    @property
    def orchestrators(self) -> list[str]:
        """The agents with that role."""
        return [name for name, agent in self.agents.items() if agent.role == "orchestrator"]

    @property
    def adapter_state(self) -> Path:
        """The folder of the adapter's store."""
        return self.paths.state / "adapter"

    @property
    def adapter_store(self) -> Path:
        """The adapter's database."""
        return self.adapter_state / "store.db"

    @property
    def watch_state(self) -> Path:
        """Where the watcher keeps how far it has read, and what it has still to tell."""
        return self.paths.state / "watch"

    @property
    def backup_folder(self) -> Path:
        """Where the adapter's backups are."""
        return self.backups.folder or self.adapter_state / "backups"

    @property
    def adapter_socket(self) -> Path:
        """Where the adapter listens."""
        return self.paths.run / "adapter.sock"

    @property
    def handed_keys(self) -> Path:
        """Where an adapter that systemd runs finds the keys of agents that join: credentials come at its start."""
        return self.paths.run / "keys"

    def sidecar_state(self, agent: str) -> Path:
        """The folder of one sidecar's store and token."""
        return self.paths.state / f"sidecar-{agent}"

    def sidecar_store(self, agent: str) -> Path:
        """The database of one sidecar."""
        return self.sidecar_state(agent) / "sidecar.db"

    def sidecar_socket(self, agent: str) -> Path:
        """Where the sidecar of `agent` listens."""
        return self.paths.run / f"sidecar-{agent}.sock"

    def sidecar_port_file(self, agent: str) -> Path:
        """Where a running sidecar writes the loopback port it got."""
        return self.sidecar_state(agent) / "port"

    def token_file(self, agent: str) -> Path:
        """The bearer token of `agent` for loopback TCP."""
        return self.sidecar_state(agent) / "token"


def load(path: Path, environ: Mapping[str, str] | None = None) -> Config:
    """Read, override, check; raises `ConfigurationFault`."""
    environ = os.environ if environ is None else environ
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigurationFault(
            f"there is no configuration at {path}; make one with: multiclaw init --dir {path.parent}"
        ) from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationFault(f"{path} cannot be read: {error}") from error
    config = _checked(document, path, environ)
    base, backups = path.absolute().parent, config.backups
    if backups.folder is not None:
        backups = backups.model_copy(update={"folder": base / backups.folder})
    return config.model_copy(update={"paths": _absolute(config.paths, base, environ), "backups": backups})


def check_text(text: str, path: Path, environ: Mapping[str, str] | None = None) -> None:
    """Raise the `ConfigurationFault` that `load` would if the file at `path` held this TOML."""
    _checked(tomllib.loads(text), path, os.environ if environ is None else environ)


def _checked(document: dict[str, Any], path: Path, environ: Mapping[str, str]) -> Config:
    _override(document, environ)
    try:
        return Config.model_validate(document)
    except ValidationError as error:
        raise ConfigurationFault(f"{path}: {_explain(error)}") from error


def check_socket_path(path: Path) -> None:
    """Refuse a path the kernel would cut; the length is that of its bytes."""
    length = len(os.fsencode(path))
    if length > UNIX_PATH_BYTES_MAX:
        raise ConfigurationFault(
            f"the socket path {path} has {length} bytes, and the limit is {UNIX_PATH_BYTES_MAX}; use a shorter folder"
        )


def _override(document: dict[str, Any], environ: Mapping[str, str]) -> None:
    for name, text in environ.items():
        if not name.startswith(_ENV_PREFIX) or "__" not in name:
            continue
        *tables, key = name.removeprefix(_ENV_PREFIX).lower().split("__")
        table = document
        for part in tables:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise ConfigurationFault(f"{name} reaches into {part!r}, which is not a table")
        table[key] = _toml_value(text)


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _absolute(paths: Paths, base: Path, environ: Mapping[str, str]) -> Paths:
    folders = {
        "state": environ.get("STATE_DIRECTORY"),
        "run": environ.get("RUNTIME_DIRECTORY"),
        "keys": environ.get("CREDENTIALS_DIRECTORY"),
    }
    given = {name: Path(value) for name, value in folders.items() if value}
    return Paths(**{name: base / value for name, value in (paths.model_dump() | given).items()})


def _explain(error: ValidationError) -> str:
    fault = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        key = str(fault["loc"][-1])
        return f"{where!r} is not a known key.{hint(key, _keys_beside(fault['loc']))}"
    return f"{where}: {fault['msg'].removeprefix('Value error, ')}" if where else fault["msg"]


def _keys_beside(where: tuple[str | int, ...]) -> list[str]:
    sections: dict[str, type[Section]] = {
        "deployment": Deployment,
        "paths": Paths,
        "limits": Limits,
        "retention": ChannelRetention if len(where) > 2 else Retention,
        "rates": Rate,
        "escalation": Escalation,
        "integrity": Integrity,
        "watch": Watching,
        "backups": Backups,
        "agents": Agent,
        "channels": Channel,
    }
    section = Config if len(where) == 1 else sections[str(where[0])]
    return list(section.model_fields)
