"""The outbox for code without an event loop."""

from multiclaw.client.outbox import Outbox
from multiclaw.client.sync_calls import Call, plain


class SyncOutbox:
    """`Outbox` without `async`: same names, same arguments, same answers."""

    def __init__(self, outbox: Outbox, call: Call) -> None:
        self.waiting = plain(outbox.waiting, call)
        self.dead = plain(outbox.dead, call)
        self.read = plain(outbox.read, call)
        self.resend = plain(outbox.resend, call)
        self.drop = plain(outbox.drop, call)
