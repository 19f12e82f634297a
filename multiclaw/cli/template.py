"""The text of a new `multiclaw.toml`."""

from collections.abc import Iterable
from typing import Final

AGENTS_DEFAULT: Final = ("orchestrator", "pm", "engineering", "qa", "research", "growth")
"""With the adapter, the seven of the design's first section."""

_PLATFORM: Final = ("orchestrator", "pm", "engineering")
_ROLES: Final = {"orchestrator": "orchestrator", "pm": "pm"}

_HEAD: Final = """\
# One Multiclaw deployment, read by every process of it. Agents and channels change while it runs: `multiclaw topology
# propose` and `approve`, which write this file. After any other change: run `multiclaw init` again, which makes what is
# missing, then restart. Unknown keys are an error. An environment variable overrides a setting:
# MULTICLAW_LIMITS__QUEUE_MAX=1000 sets queue_max of [limits].

[deployment]
# `development = true` here opens the sidecars' loopback ports to every process of this host, without a token.
name = "multiclaw"

# Folders, relative to this file: stores and tokens, sockets, signing keys, contracts of your own (JSON Schema).
[paths]
state = "{state}"
run = "{run}"
keys = "keys"
contracts = "contracts"

# Bounds. What is not set here has its default: queue_max = 500 messages per agent, outbox_max = 1000 sends per sidecar
# (its last twentieth, outbox_critical_reserve, is for critical ones),
# lease_seconds = 30, attempts_max = 3, envelope_bytes_max = 262144.
[limits]

# How fast one agent may send, by class of contract; what is more waits in its sidecar. The defaults: per_second = 200
# and burst = 500 in [rates.normal], 50 and 250 in [rates.critical], 100 and 500 in [rates.progress].

# When a human is told (`multiclaw governor inbox`): of the same alarm repeats = 10 times in window_seconds = 3600, of
# an agent that has not polled for absence_governor_seconds = 600. It can be told by a command = ["..."] and by a
# webhook = "https://...", too.
[escalation]

# Who is told of the journal's alarms by `multiclaw watch`: the orchestrators, unless agents = false, and a command.
[watch]

# Copies of the adapter's store: interval_hours = 6, of which the newest keep = 4 are kept and one of each of
# keep_days = 7, in the folder `backups` beside the store. A folder = "/mnt/other-disk/multiclaw" outlives this disk.
[backups]

# One table per agent. Its role, `orchestrator`, `pm` or `execution`, decides which contracts it may send. `port` is
# that of its sidecar on 127.0.0.1; 0, the default, lets the kernel choose, and `multiclaw status` tells which it is.
"""

_CHANNELS: Final = """
# Every member gets every message of a channel, its sender included, in one order. Each agent also has a channel of its
# own, `@name`. The adapter is always a member of `platform`, where its alerts go.
"""


def topology_text(agents: tuple[str, ...], state: str = "state", run: str = "run") -> str:
    """The file for these agents; those called `orchestrator` and `pm` get the role of that name.

    `state` and `run` are folders, relative to the file or absolute.
    """
    platform = [name for name in _PLATFORM if name in agents] or agents
    channels = {"all-agents": agents, "product": agents, "platform": platform}
    return "".join(
        [
            _HEAD.format(state=state, run=run),
            "\n".join(f'[agents.{name}]\nrole = "{_ROLES.get(name, "execution")}"\n' for name in agents),
            _CHANNELS,
            "\n".join(f"[channels.{name}]\nmembers = [{_quoted(members)}]\n" for name, members in channels.items()),
        ]
    )


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
