"""What we write to the journal, each kind under a fixed `MESSAGE_ID`, and the catalogue that explains them.

`journalctl MESSAGE_ID=…` finds every entry of a kind, of every deployment, for ever: an id here is never changed and
never used again. `deploy/systemd/multiclaw.catalog` is made from this table (`python -m shared.journal_events`), so
that `journalctl -x` says what each entry means and what to do.
"""

from dataclasses import dataclass
from typing import Final, Literal

Writer = Literal["adapter", "sidecar", "failure", "watch"]
"""A program of ours that writes to the journal; `failure` is the unit that tells what systemd has given up on."""

CRITICAL: Final = 2
WARNING: Final = 4
NOTICE: Final = 5
"""Priorities of syslog(3)."""


@dataclass(frozen=True, slots=True)
class JournalEvent:
    """A kind of entry. `message_id` is 128 random bits as systemd writes them, 32 hex digits (sd_journal_print(3)).

    `writers` are the only ones who may say it: from anybody else the watcher does not believe it.
    """

    name: str
    message_id: str
    title: str
    help: str
    priority: int = CRITICAL
    writers: tuple[Writer, ...] = ("adapter", "sidecar")


EMERGENCY: Final = JournalEvent(
    "emergency",
    "5a2f6a3ce1f64f0b9c8b5d0f5c7b8a11",
    "An agent calls for help",
    "The agent @MULTICLAW_AGENT@ raised an emergency of the kind @MULTICLAW_KIND@. The message and the details\n"
    "are the agent's own words; who wrote them is told by _UID and _SYSTEMD_UNIT, which journald itself fills in.",
    writers=("sidecar",),
)
BREAKER_OPEN_TOO_LONG: Final = JournalEvent(
    "breaker-open-too-long",
    "0c04c59e7c0149fb990611640766e151",
    "A sidecar has not reached the adapter for long",
    "What the agent @MULTICLAW_AGENT@ sends waits in its outbox, and nothing reaches it.\n\n"
    "See how the adapter is: systemctl status multiclaw-adapter. If its start limit was hit, mend the cause and\n"
    "start it again: systemctl reset-failed multiclaw-adapter && systemctl start multiclaw-adapter.",
    writers=("sidecar",),
)
OUTBOX_NEARLY_FULL: Final = JournalEvent(
    "outbox-nearly-full",
    "08e1c3227d1646bfad129b04a198180d",
    "A sidecar's outbox is nearly full",
    "Nine tenths of the places for sends of @MULTICLAW_AGENT@ are taken. Once all are, its sends are refused.\n\n"
    "Bring the adapter back: the outbox drains by itself.",
    writers=("sidecar",),
)
OUTBOX_FULL: Final = JournalEvent(
    "outbox-full",
    "fa283949c5bc4c8583592ae6824e5790",
    "A sidecar's outbox is full",
    "Sends of @MULTICLAW_AGENT@ are refused with 503 until the adapter is back. What was accepted is kept.\n\n"
    "Bring the adapter back: the outbox drains by itself.",
    writers=("sidecar",),
)
BAD_SIGNATURE: Final = JournalEvent(
    "bad-signature",
    "b6e50e9cf2eb4c31a8772afc7fa47797",
    "An answer in the adapter's name had a bad signature",
    "The sidecar of @MULTICLAW_AGENT@ refused it. Either the keys of the two differ, or something else speaks at the\n"
    "adapter's socket.\n\n"
    "Look at what listens there, and at the key files; see the details for what was refused.",
    writers=("sidecar",),
)
DISK_TROUBLE: Final = JournalEvent(
    "disk-trouble",
    "fa33f00d4ba54d61b8365bc95ff50dd8",
    "A store cannot be written",
    "Until it can, sends are refused. The details hold the error of the operating system.\n\n"
    "Free space, or mend the file system: it recovers by itself.",
)
STORE_LOG_STUCK: Final = JournalEvent(
    "store-log-stuck",
    "907dc931bc561393853149c41ae00262",
    "The log of a sidecar's store cannot be emptied, and grows",
    "What is committed stays in the log, since another process reads the store of @MULTICLAW_AGENT@ and does not end,\n"
    "or the disk fails. Nothing is lost, but in time the disk is full.\n\n"
    "See who has the store open, lsof sidecar.db, and end that process; the log is then emptied by itself.",
    writers=("sidecar",),
)
STORE_DAMAGED: Final = JournalEvent(
    "store-damaged",
    "967ba559b16a456bb4305675d7ebaab0",
    "The adapter's store is damaged",
    "The adapter serves nothing until it is mended; sends wait in the sidecars' outboxes. The message names the file\n"
    "and what is wrong with it; no byte of it was changed.\n\n"
    "It is repaired now, where nothing would be lost; the next entry of the adapter tells. Look at the disk and the\n"
    "memory of this host, and keep the folder of the store as it is.",
    writers=("adapter",),
)
STORE_REPAIRED: Final = JournalEvent(
    "store-repaired",
    "67c5302314ae4b90a912499c588514d2",
    "The adapter's store was damaged and is repaired",
    "Nothing is lost. The message names the folder in which the damaged files are kept; remove it when nobody wants\n"
    "to look at them any more. What may be handed over again, the sidecars absorb.\n\n"
    "Look at the disk and the memory of this host: what is damaged again within a day is not repaired by itself.",
    NOTICE,
    writers=("adapter",),
)
STORE_NOT_REPAIRED: Final = JournalEvent(
    "store-not-repaired",
    "93ebfd488d724e4db68c2fd00118e620",
    "The adapter's store is damaged, and a human must decide",
    "The message says why it was not repaired by itself. The adapter serves nothing; sends wait in the sidecars'\n"
    "outboxes.\n\n"
    "Stop the adapter, and see what a repair would lose: multiclaw repair --dry-run. Then either have it done,\n"
    "multiclaw repair --accept-loss, or put a backup in place: multiclaw restore.",
    writers=("adapter",),
)
CLEARED: Final = JournalEvent(
    "cleared",
    "b602cf03444848fdafcec2ae8a1254b4",
    "A trouble has ended",
    "What @MULTICLAW_AGENT@ had raised as @MULTICLAW_KIND@ is over.",
    NOTICE,
)
GOVERNOR_ESCALATION: Final = JournalEvent(
    "governor-escalation",
    "247995446be84c29b2b9f5cb1cb61c0d",
    "The Human Governor is asked to decide",
    "The adapter escalates what no agent may decide. The details say what it is about.",
    writers=("adapter",),
)
START_LIMIT_HIT: Final = JournalEvent(
    "start-limit-hit",
    "cb8258c6f60e490f99cd2521f8fa34a3",
    "A service of the deployment failed, and systemd has given up starting it",
    "@MULTICLAW_KIND@ does not run and will not be started again by itself. Sends wait in the sidecars' outboxes.\n\n"
    "Find the cause: journalctl -u @MULTICLAW_KIND@. Then:\n"
    "systemctl reset-failed @MULTICLAW_KIND@ && systemctl start @MULTICLAW_KIND@.",
    writers=("failure",),
)

WATCH_GAP: Final = JournalEvent(
    "watch-gap",
    "bcbecf7c00b24a72a30b09bacbbafbc7",
    "The watcher may have missed entries",
    "Entries were removed from the journal, or could not be read, before the watcher had seen them. It goes on with\n"
    "the oldest one that is kept.\n\n"
    "Look for what was raised meanwhile: multiclaw status, multiclaw governor inbox. If the watcher did not run for\n"
    "long, find out why; if the journal keeps too little, give it more room: SystemMaxUse= in journald.conf(5).",
    writers=("watch",),
)
WATCH_FORGED: Final = JournalEvent(
    "watch-forged",
    "77e5fa820842416abd49c5e9aec29571",
    "Somebody wrote entries in the name of Multiclaw",
    "The journal holds an entry under one of our message ids whose writer may not say so; it raised no alarm. The\n"
    "details name the user and the unit, as journald itself knows them. Told once for each user.\n\n"
    "Find out what runs there: journalctl _UID=NUMBER.",
    writers=("watch",),
)
WATCH_UNDELIVERED: Final = JournalEvent(
    "watch-undelivered",
    "43cf025a3138426a96d14b2794bc7cf6",
    "An alarm could not be handed on",
    "The watcher has given up telling of an alarm by @MULTICLAW_KIND@. The details hold the reason and the alarm.\n\n"
    "Mend what is named; the alarm itself is not told again.",
    writers=("watch",),
)
OUTBOX_DROPPED: Final = JournalEvent(
    "outbox-dropped",
    "ac59fcf4f8fb8949ca75ac0dfdf1529d",
    "A send was dropped from an outbox by hand",
    "A send of @MULTICLAW_AGENT@ that had its 202 and waited for the adapter was thrown away through\n"
    "the sidecar's API (multiclaw outbox drop). The details name it; its content is gone.",
    WARNING,
    writers=("sidecar",),
)
OUTBOX_AGING: Final = JournalEvent(
    "outbox-aging",
    "1a47ac4d5fd64f372270b00f97b67cfc",
    "A send has waited for long in a sidecar's outbox",
    "The oldest send of @MULTICLAW_AGENT@ has waited for half of the time for which the adapter surely remembers\n"
    "whether it has it already (limits.outbox_days_max).\n\n"
    "Bring the adapter back, or see what holds the outbox up: multiclaw outbox list --as @MULTICLAW_AGENT@.",
    WARNING,
    writers=("sidecar",),
)
OUTBOX_TOO_OLD: Final = JournalEvent(
    "outbox-too-old",
    "e10fda12dba270fc02f34c2d6b46407f",
    "A send will soon have waited for too long in a sidecar's outbox",
    "Four fifths of the time are gone for which the adapter surely remembers whether it has the oldest send of\n"
    "@MULTICLAW_AGENT@. After all of it the send may be set aside instead, for somebody to decide about.\n\n"
    "Bring the adapter back, or see what holds the outbox up: multiclaw outbox list --as @MULTICLAW_AGENT@.",
    writers=("sidecar",),
)
OUTBOX_REFUSED: Final = JournalEvent(
    "outbox-refused",
    "2f48782994d2dab11074d282584a9058",
    "Sends were refused after they had waited",
    "The adapter refused sends of @MULTICLAW_AGENT@ for good, for which the agent had a 202. They are kept,\n"
    "each with the reason.\n\n"
    "See them: multiclaw outbox list --dead --as @MULTICLAW_AGENT@. Then send them again (outbox resend) or drop them.",
    WARNING,
    writers=("sidecar",),
)
OUTBOX_STOPPED: Final = JournalEvent(
    "outbox-stopped",
    "b4c519dac585278336a90e2219e8d3f6",
    "A sidecar's outbox has stopped",
    "As many refused sends of @MULTICLAW_AGENT@ are kept as may be. Nothing more leaves its outbox, since what is\n"
    "refused could not be kept; nothing is lost.\n\n"
    "Decide about them: multiclaw outbox list --dead --as @MULTICLAW_AGENT@, then outbox resend or outbox drop.\n"
    "It goes on by itself as soon as there is room.",
    writers=("sidecar",),
)

EVENTS: Final = (
    EMERGENCY,
    BREAKER_OPEN_TOO_LONG,
    OUTBOX_NEARLY_FULL,
    OUTBOX_FULL,
    BAD_SIGNATURE,
    DISK_TROUBLE,
    CLEARED,
    GOVERNOR_ESCALATION,
    START_LIMIT_HIT,
    STORE_DAMAGED,
    WATCH_GAP,
    WATCH_FORGED,
    WATCH_UNDELIVERED,
    OUTBOX_DROPPED,
    OUTBOX_AGING,
    OUTBOX_TOO_OLD,
    OUTBOX_REFUSED,
    OUTBOX_STOPPED,
    STORE_REPAIRED,
    STORE_NOT_REPAIRED,
    STORE_LOG_STUCK,
)


def catalogue() -> str:
    """The table as a journal message catalogue (https://systemd.io/CATALOG/)."""
    head = "# Made from shared/journal_events.py by: python -m shared.journal_events\n"
    return head + "".join(
        f"\n-- {event.message_id}\nSubject: {event.title}\nDefined-By: Multiclaw\n\n{event.help}\n" for event in EVENTS
    )


if __name__ == "__main__":
    print(catalogue(), end="")
