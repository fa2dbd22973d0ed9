"""Identifiers: a short prefix that says what it names, and 128 bits that sort by the time they were made."""

import os
import time
from typing import NewType

TenantId = NewType("TenantId", str)
ThreadId = NewType("ThreadId", str)
RunId = NewType("RunId", str)
PauseId = NewType("PauseId", str)
DeliveryId = NewType("DeliveryId", str)
CallId = NewType("CallId", str)

DEFAULT_TENANT = TenantId("default")


def new_thread_id() -> ThreadId:
    return ThreadId(f"thr_{_sortable_hex()}")


def new_run_id() -> RunId:
    return RunId(f"run_{_sortable_hex()}")


def new_pause_id() -> PauseId:
    return PauseId(f"pau_{_sortable_hex()}")


def new_delivery_id() -> DeliveryId:
    return DeliveryId(f"dlv_{_sortable_hex()}")


def new_key_id() -> str:
    return f"key_{_sortable_hex()}"


def new_worker_id() -> str:
    return f"wrk_{_sortable_hex()}"


def new_request_id() -> str:
    return f"req_{_sortable_hex()}"


def _sortable_hex() -> str:
    """A version 7 UUID (RFC 9562) without dashes: 48 bits of Unix milliseconds, then random bits."""
    stamp = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    high, low = random >> 62 & 0xFFF, random & (1 << 62) - 1
    return f"{stamp << 80 | 0x7 << 76 | high << 64 | 0x2 << 62 | low:032x}"
