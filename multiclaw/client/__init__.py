"""The Python client that agents import: the standard library and aiohttp, nothing of the processes behind it."""

from multiclaw.client.agent import Agent
from multiclaw.client.errors import (
    BatchFailed,
    ConfigurationError,
    InvalidMessage,
    MulticlawError,
    Refuse,
    Refused,
    SidecarError,
    StaleLease,
    Unavailable,
)
from multiclaw.client.gaps import Gap
from multiclaw.client.messages import Message, StoredMessage
from multiclaw.client.outgoing import Receipt, Recipient
from multiclaw.client.sync import SyncAgent, SyncMessage

__all__ = [
    "Agent",
    "BatchFailed",
    "ConfigurationError",
    "Gap",
    "InvalidMessage",
    "Message",
    "MulticlawError",
    "Receipt",
    "Recipient",
    "Refuse",
    "Refused",
    "SidecarError",
    "StaleLease",
    "StoredMessage",
    "SyncAgent",
    "SyncMessage",
    "Unavailable",
]
