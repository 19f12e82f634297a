"""Acting as the Human Governor, over the link itself: what the verbs of a human who decides share.

No sidecar speaks for the Governor. Whoever can read its key file is the human, as far as the adapter can tell.
"""

import asyncio
import time
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import aiohttp
from yarl import URL

from multiclaw.cli.acting import printable
from multiclaw.cli.exits import CONFIGURATION, FAILED, UNAVAILABLE, Exit
from shared.config import Config
from shared.keys import KeyFault, Keyring, load_keyring
from shared.link import ROOT
from shared.names import GOVERNOR
from shared.problems import Problem
from shared.signing import ANSWER_HEADER, REQUEST_HEADER, sign_request, verify_answer
from shared.strict_json import decode_object, encode

_ANSWER_SECONDS: Final = 10.0
"""A commit takes milliseconds; a person waits no longer than this to hear that none comes."""


@dataclass(frozen=True, slots=True)
class Governor:
    """Calls of the link, signed with the Governor's key. An answer that is not signed for us is not believed."""

    config_path: Path
    socket: Path
    keyring: Keyring

    def get(self, path: str) -> dict[str, Any]:
        """The answer to a GET below the link's root; a refusal ends the verb."""
        return asyncio.run(self._call("GET", ROOT + path, b""))

    def post(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The answer to a POST below the link's root; a refusal ends the verb."""
        return asyncio.run(self._call("POST", ROOT + path, b"" if body is None else encode(body)))

    async def _call(self, method: str, target: str, body: bytes) -> dict[str, Any]:
        signature = sign_request(method, target, body, self.keyring, time.time_ns() // 1_000)
        headers = {REQUEST_HEADER: signature, "Content-Type": "application/json"}
        try:
            async with (
                aiohttp.ClientSession(
                    connector=aiohttp.UnixConnector(str(self.socket)),
                    timeout=aiohttp.ClientTimeout(total=_ANSWER_SECONDS),
                ) as session,
                session.request(
                    method, URL(f"http://link{target}", encoded=True), data=body, headers=headers
                ) as answer,
            ):
                content, status = await answer.read(), answer.status
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Exit(UNAVAILABLE, self._away(f"the adapter does not answer at {self.socket}")) from error
        if not verify_answer(self.keyring.current, signature, status, content, answer.headers.get(ANSWER_HEADER)):
            why = f"what answers at {self.socket} does not know the key of {GOVERNOR}, so it is not believed"
            raise Exit(FAILED, f"{why}; was the adapter started before that key was made? Then restart it")
        return self._judged(status, content)

    def _judged(self, status: int, content: bytes) -> dict[str, Any]:
        document = decode_object(content)
        if status < HTTPStatus.MULTIPLE_CHOICES:
            return document
        problem = Problem.from_document(document)
        words = printable(f"{problem.kind}: {problem.detail}")
        if problem.status == HTTPStatus.SERVICE_UNAVAILABLE:
            raise Exit(UNAVAILABLE, self._away(words))
        raise Exit(FAILED, words)

    def _away(self, words: str) -> str:
        return f"{words}\nsee: multiclaw status --config {self.config_path}"


def governor(config_path: Path, config: Config) -> Governor:
    """The Governor of a deployment; ends the verb where its key cannot be read."""
    try:
        return Governor(config_path, config.adapter_socket, load_keyring(config.paths.keys, GOVERNOR))
    except KeyFault as fault:
        raise Exit(CONFIGURATION, str(fault)) from fault
