"""Who may do what at a sidecar's Unix socket."""

import os
import socket
import stat
from types import SimpleNamespace

import pytest

import sidecar.guard
from shared.problems import Problem
from sidecar.guard import Peers, guard, peers_of


def asks(peers: Peers, method: str, path: str, agent: str = "pm") -> str:
    """The agent that a call from this very process counts as, or the words of its refusal."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        request = SimpleNamespace(get_extra_info=lambda _: ours)
        call = SimpleNamespace(request=request, route=SimpleNamespace(method=method, path=path), agent="")
        try:
            guard(agent, "token", peers, development=False)(call)
        except Problem as problem:
            return problem.detail
    return call.agent


@pytest.fixture(autouse=True)
def nobody_is_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests may run as root, who may do everything."""
    monkeypatch.setattr(sidecar.guard, "_ROOT", -1)


def test_the_owner_may_do_everything() -> None:
    """Whatever the group is."""
    assert asks(Peers(os.geteuid()), "GET", "/v1/messages") == "pm"
    assert asks(Peers(os.geteuid(), os.getegid()), "POST", "/v1/messages/ack") == "pm"


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/messages"), ("POST", "/v1/messages/ack"), ("POST", "/v1/messages/batch"), ("POST", "/v1/emergency")],
)
def test_the_group_may_send_and_nothing_else(method: str, path: str) -> None:
    """It can neither read the agent's messages nor settle them."""
    group = Peers(os.geteuid() + 1, os.getegid())
    assert asks(group, "POST", "/v1/messages") == "pm"
    assert "may only send" in asks(group, method, path)


def test_others_may_do_nothing() -> None:
    """Neither where there is no group, nor from another one."""
    for gid in (None, os.getegid() + 1):
        assert "serves its owner" in asks(Peers(os.geteuid() + 1, gid), "POST", "/v1/messages")


@pytest.mark.parametrize(
    ("mode", "gid"), [(0o600, None), (0o640, None), (0o620, None), (0o660, 7), (0o666, 7)], ids=str
)
def test_the_mode_of_the_file_decides_about_the_group(mode: int, gid: int | None) -> None:
    """A group counts where the file is open to it for reading and writing."""
    file = os.stat_result((stat.S_IFSOCK | mode, 1, 1, 1, 5, 7, 0, 0, 0, 0))
    assert peers_of(file) == Peers(5, gid)
