"""Dead letters for code without an event loop."""

from multiclaw.client.dead_letters import DeadLetters
from multiclaw.client.sync_calls import Call, plain


class SyncDeadLetters:
    """`DeadLetters` without `async`: same names, same arguments, same answers."""

    def __init__(self, letters: DeadLetters, call: Call) -> None:
        self.page = plain(letters.page, call)
        self.read = plain(letters.read, call)
        self.groups = plain(letters.groups, call)
        self.replay = plain(letters.replay, call)
        self.resolve = plain(letters.resolve, call)
        self.resend = plain(letters.resend, call)
        self.start_replay = plain(letters.start_replay, call)
        self.replays = plain(letters.replays, call)
        self.read_replay = plain(letters.read_replay, call)
        self.cancel_replay = plain(letters.cancel_replay, call)
