"""The operating system's account that Postgres runs as: the service's own, or one lent by root.

Postgres refuses to run as root. A service of root therefore runs it as the owner of the data, or else
as `nobody`, and lets that account, and no other, pass through the folders above what it must reach.
"""

import errno
import logging
import os
import pwd
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypedDict

from app.errors import AuthoringError

log = logging.getLogger(__name__)

_ROOT = 0


class NoAccountForPostgres(AuthoringError):
    """Root may not run Postgres itself and has nobody to lend it to."""

    code = "no_account_for_postgres"


class RunAs(TypedDict, total=False):
    """What `subprocess` takes to start a process as another account."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, kw_only=True)
class OsAccount:
    """Who Postgres' processes and files belong to."""

    name: str
    uid: int
    gid: int
    lent: bool

    @classmethod
    def for_data_in(cls, *folders: Path) -> Self:
        """The service's own account; for root the first owner of `folders` that is not root, or `nobody`."""
        if os.geteuid() != _ROOT:
            return cls(name="", uid=os.geteuid(), gid=os.getegid(), lent=False)
        owners = [folder.stat().st_uid for folder in folders if folder.exists()]
        uid = next((owner for owner in owners if owner != _ROOT), None)
        try:
            entry = pwd.getpwnam("nobody") if uid is None else pwd.getpwuid(uid)
        except KeyError:
            raise NoAccountForPostgres(
                f"Postgres does not run as root, and there is no account "
                f"{'`nobody`' if uid is None else uid} to run it as: start the service as "
                f"another account, or set DATABASE_URL to a Postgres of your own."
            ) from None
        return cls(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid, lent=True)

    @property
    def run_as(self) -> RunAs:
        """The arguments that make `subprocess` start a process as this account."""
        if not self.lent:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, folder: Path) -> None:
        """Makes `folder` this account's, and closes it to all others."""
        if self.lent:
            os.chown(folder, self.uid, self.gid)
        folder.chmod(stat.S_IRWXU)

    def let_through_to(self, path: Path) -> None:
        """Lets a lent account pass through the folders above `path`: enter them, not list them.

        Raises:
            NoAccountForPostgres: the file system keeps no access lists.
        """
        if not self.lent:
            return
        for folder in path.resolve().parents:
            if not self._may_enter(folder.stat()):
                self._allow_to_enter(folder)

    def _may_enter(self, folder: os.stat_result) -> bool:
        if folder.st_uid == self.uid:
            return bool(folder.st_mode & stat.S_IXUSR)
        if folder.st_gid == self.gid:
            return bool(folder.st_mode & stat.S_IXGRP)
        return bool(folder.st_mode & stat.S_IXOTH)

    def _allow_to_enter(self, folder: Path) -> None:
        try:
            entries = _access_list(folder)
            mask = entries.get((_MASK, _NO_ID), entries[_GROUP, _NO_ID])
            opened = entries | {
                (_NAMED_USER, self.uid): entries.get((_NAMED_USER, self.uid), 0) | _ENTER,
                (_MASK, _NO_ID): mask | _ENTER,
            }
            if opened != entries:
                os.setxattr(folder, _ACCESS_LIST, _packed(opened))
                log.info("let through", extra={"account": self.name, "folder": str(folder)})
        except (OSError, AttributeError):  # AttributeError: only Linux has these calls
            raise NoAccountForPostgres(
                f"Postgres does not run as root, and the account `{self.name}` that it would run "
                f"as may not enter {folder}: start the service as another account, or from "
                f"another folder, or set DATABASE_URL to a Postgres of your own."
            ) from None


# POSIX access lists as Linux keeps them: a version, then (tag, permissions, id), ordered
# (linux/posix_acl_xattr.h).
_ACCESS_LIST = "system.posix_acl_access"
_VERSION = struct.pack("<I", 2)
_ENTRY = struct.Struct("<HHI")
_OWNER, _NAMED_USER, _GROUP, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
_NO_ID = 0xFFFFFFFF
_ENTER = 1


def _access_list(folder: Path) -> dict[tuple[int, int], int]:
    """The permissions of `folder` by (tag, id): its access list, or its mode written as one."""
    try:
        packed = os.getxattr(folder, _ACCESS_LIST)
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise
        mode = folder.stat().st_mode
        return {
            (_OWNER, _NO_ID): mode >> 6 & 7,
            (_GROUP, _NO_ID): mode >> 3 & 7,
            (_OTHER, _NO_ID): mode & 7,
        }
    return {(tag, id_): bits for tag, bits, id_ in _ENTRY.iter_unpack(packed[len(_VERSION) :])}


def _packed(entries: dict[tuple[int, int], int]) -> bytes:
    return _VERSION + b"".join(
        _ENTRY.pack(tag, bits, id_) for (tag, id_), bits in sorted(entries.items())
    )
