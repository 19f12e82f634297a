"""Who calls: the request's signature. What we answer: sealed with the caller's own key."""

from adapter.core.routing import left
from adapter.http.roster import Roster
from shared.clock import Clock
from shared.keys import Key, Keyring
from shared.signing import ANSWER_HEADER, REQUEST_HEADER, sign_answer, verify_request
from shared.web.routes import Answer, Call


class LinkAuth:
    """Guard and seal of the link."""

    def __init__(self, roster: Roster, clock: Clock) -> None:
        self._roster = roster
        self._clock = clock

    def guard(self, call: Call) -> None:
        """Let a signed request in as its agent; raises `unauthenticated`, `signature-invalid` or `signature-stale`.

        The refusal of an agent that was removed is sealed, so that its sidecar can believe it.
        """
        request = call.request
        call.agent, _ = verify_request(
            request.headers.get(REQUEST_HEADER),
            request.method,
            request.raw_path,
            call.body,
            self._roster.keyrings,
            self._clock.wall_us(),
        )
        if call.agent not in self._roster.topology.roles:
            raise left(call.agent)

    def seal(self, call: Call, answer: Answer) -> None:
        """Sign the answer to a request that was let in."""
        signature = call.request.headers[REQUEST_HEADER]
        answer.headers[ANSWER_HEADER] = sign_answer(
            self._key(call.agent, signature), signature, answer.status, answer.body
        )

    def _key(self, agent: str, signature: str) -> Key:
        """The key the request was signed with: a sidecar that holds an older key must be able to verify."""
        keyring = self._roster.keyrings[agent]
        return keyring.find(signature.split(" ")[1]) or keyring.current

    def keyring(self, agent: str) -> Keyring:
        """The keys of an agent that was let in."""
        return self._roster.keyrings[agent]
