"""What the exchange should do, said as simply as possible: one list for each recipient, searched from the front.

Written from the promises alone and with no thought of speed. Times are seconds.
"""

from dataclasses import dataclass, field

QUEUE_MAX, RESERVE, ATTEMPTS, LEASE, BASE, CAP = 5, 1, 2, 30.0, 1.0, 4.0

LIVE = ("queued", "leased")


@dataclass
class Entry:
    """One message on its way to one recipient."""

    message: "Message"
    state: str = "queued"
    reason: str | None = None
    token: str | None = None
    handovers: int = 0
    failures: int = 0
    solo: bool = False
    hand: int = 0
    cycles: int = 0
    closure: str | None = None
    died: float = 0.0
    lease_until: float = 0.0
    not_before: float = 0.0

    @property
    def shown(self):
        """What is compared with the store."""
        return self.state, self.reason, self.token, self.handovers, self.failures, self.solo, self.cycles

    @property
    def open(self):
        """Whether somebody must decide about its death."""
        return self.state == "dead" and self.closure is None

    def die(self, reason, now):
        """One more death, and somebody must decide."""
        self.state, self.reason, self.closure, self.died = "dead", reason, None, now
        self.cycles += 1


@dataclass(eq=False)
class Message:
    """One send; `content` is anything that compares."""

    sender: str
    key: str
    content: object
    channel: str
    line: str
    critical: bool
    expires: float | None
    sequence: int = 0
    accepted: float = 0.0
    kept: bool = False
    pruned: bool = False
    entries: dict[str, Entry] = field(default_factory=dict)


@dataclass
class Model:
    """Everything: messages in commit order, and polls that wait. `spent` are sends by bucket, where rates are kept."""

    messages: list[Message] = field(default_factory=list)
    parked: list[tuple[str, int, int]] = field(default_factory=list)
    hands: int = 0
    rates: dict[str, tuple[float, float]] = field(default_factory=dict)
    tokens: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)

    def queue(self, recipient):
        """The recipient's live entries in commit order."""
        entries = (m.entries[recipient] for m in self.messages if recipient in m.entries)
        return [entry for entry in entries if entry.state in LIVE]

    def by_token(self, recipient, token):
        """The entry that the number in a token names, or None."""
        number = int(token.split(".")[0], 16)
        message = self.messages[number - 1] if 0 < number <= len(self.messages) else None
        return message and message.entries.get(recipient)

    # Sending

    def send(self, message, recipients, now, replaced=None):
        """The message and a word: new, duplicate, or the kind of refusal. `replaced` is the death it deals with."""
        for known in self.messages:
            if not known.pruned and (known.sender, known.key) == (message.sender, message.key):
                return known, "duplicate" if known.content == message.content else "idempotency-conflict"
        if message.expires is not None and message.expires <= now:
            return None, "expired"
        if replaced is not None and not replaced.open:
            return None, "not-dead"
        agents = [recipient for recipient in recipients if recipient != "adapter"]
        if message.critical and any(self.is_full(agent) for agent in agents):
            return None, "queue-full"
        if not self.may_send(message, now):
            return None, "rate-limited"
        if replaced is not None:
            replaced.closure = "resent"
        message.accepted = now
        message.sequence = 1 + sum(earlier.channel == message.channel for earlier in self.messages)
        for recipient in recipients:
            message.entries[recipient] = self.admitted(recipient, message, now)
        self.messages.append(message)
        return message, "new"

    def evictable(self, recipient):
        """The oldest of normal priority that nobody has in hand."""
        return next((e for e in self.queue(recipient) if e.state == "queued" and not e.message.critical), None)

    def is_full(self, recipient):
        """Whether not even a critical message fits."""
        return len(self.queue(recipient)) >= QUEUE_MAX + RESERVE and self.evictable(recipient) is None

    def may_send(self, message, now):
        """Whether its sender's bucket has a token, which is then spent."""
        name = "critical" if message.critical else "normal"
        if name not in self.rates:
            return True
        per_second, burst = self.rates[name]
        left, since = self.tokens.get((message.sender, name), (burst, now))
        left = min(burst, left + (now - since) * per_second)
        self.tokens[message.sender, name] = (left - 1 if left >= 1 else left), now
        return left >= 1

    def admitted(self, recipient, message, now):
        """The newcomer's entry; makes room where there must be."""
        entry = Entry(message)
        if recipient == "adapter":
            entry.state = "acked"
        elif len(self.queue(recipient)) >= QUEUE_MAX:
            oldest = self.evictable(recipient)
            if oldest is not None:
                oldest.die("overflow", now)
            elif not message.critical:
                entry.die("overflow", now)
        return entry

    # Handing over

    def claim(self, recipient, count, now):
        """The batch: in commit order, each with nothing of its line before it but what is in the batch."""
        batch = []
        self.hands += 1
        for entry in self.queue(recipient):
            if len(batch) == count:
                break
            ahead = [e for e in self.queue(recipient) if e.message.line == entry.message.line]
            ahead = ahead[: ahead.index(entry)]
            if entry.state != "queued" or entry.not_before > now or any(e not in batch for e in ahead):
                continue
            if entry.message.expires is not None and entry.message.expires <= now:
                entry.die("expired", now)
                continue
            if entry.solo and batch:
                break
            entry.state = "leased"
            entry.hand = self.hands
            entry.handovers += 1
            entry.lease_until = now + LEASE
            batch.append(entry)
            if entry.solo:
                break
        return batch

    # Settling

    def holds(self, recipient, token):
        """The entry under this very lease, or None."""
        entry = self.by_token(recipient, token)
        return entry if entry and entry.state == "leased" and entry.token == token else None

    def ack(self, recipient, tokens):
        """Acked and stale tokens."""
        acked, stale = [], []
        for token in tokens:
            entry = self.by_token(recipient, token)
            if entry.token == token and entry.state in ("leased", "acked"):
                entry.state = "acked"
                acked.append(token)
            else:
                stale.append(token)
        return acked, stale

    def fail(self, recipient, entry, now, *, silent):
        """One attempt is spent; what follows in the line comes back with it, free."""
        entry.failures += 1
        entry.solo = silent
        self.release(recipient, entry)
        entry.not_before = now + min(CAP, BASE * 2 ** (entry.failures - 1))
        if entry.failures >= ATTEMPTS:
            entry.die("max-attempts", now)

    def release(self, recipient, entry):
        """Free of charge, and with it the later ones of its line that were handed over together with it."""
        queue = [e for e in self.queue(recipient) if e.message.line == entry.message.line]
        for later in queue[queue.index(entry) :]:
            if later.hand == entry.hand:
                later.state = "queued"

    def tick(self, now):
        """Leases lapse, oldest message first."""
        for recipient in sorted({name for message in self.messages for name in message.entries}):
            for entry in self.queue(recipient):
                if entry.state == "leased" and entry.lease_until <= now:
                    self.fail(recipient, entry, now, silent=True)
            for entry in self.queue(recipient):
                if entry.state == "queued" and entry.message.expires is not None and entry.message.expires <= now:
                    entry.die("expired", now)

    # What is decided about the dead

    def deliveries(self):
        """Every delivery that ever was, but for the adapter's: its message's number, its recipient, its entry."""
        return [
            (number, agent, entry)
            for number, message in enumerate(self.messages, 1)
            for agent, entry in message.entries.items()
            if agent != "adapter"
        ]

    def place(self, index):
        """Mostly an open dead letter, and sometimes any delivery that ever was: its message's number, its recipient."""
        known = self.deliveries()
        dead = [one for one in known if one[2].open]
        chosen = dead if dead and index % 5 else known
        return chosen[index % len(chosen)][:2]

    def replay(self, recipient, entry, now):
        """The kind of refusal, or None: then it waits in its old place with a fresh budget."""
        if not entry.open:
            return "not-dead"
        if entry.message.expires is not None and entry.message.expires <= now:
            return "expired"
        if len(self.queue(recipient)) >= QUEUE_MAX + (RESERVE if entry.message.critical else 0):
            return "queue-full"
        entry.state, entry.reason, entry.closure = "queued", None, "replayed"
        entry.failures, entry.not_before, entry.solo = 0, 0.0, False
        return None

    def resolve(self, entry):
        """The kind of refusal, or None: then it stays dead and nobody is asked again."""
        if not entry.open:
            return "not-dead"
        entry.closure = "resolved"
        return None
