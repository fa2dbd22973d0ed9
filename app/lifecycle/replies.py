"""Lets whom a notice was sent to decide its pause, by a token that goes out with it."""

import os
from collections.abc import Sequence
from typing import Final

from app.channels.reply_token import Grant, claimed_by, make_token, read_token
from app.channels.reply_token import (
    is_reply_token as is_reply_token,
)  # for whoever tells credentials apart
from app.channels.signing import SigningSecret
from app.domain.principal import CHANNEL, Flaw, Holder, Lapsed, Principal, Scope
from app.errors import Forbidden
from app.lifecycle.api_keys import is_plain
from app.storage import pauses, service_secrets
from app.storage.database import Database

_NAME: Final = "reply tokens"


class TokenOfAnotherPause(Forbidden):
    """A reply token decides the pause that it came with, and no other."""

    code = "token_of_another_pause"


class Replies:
    """What tokens are made from: the secrets that are given, else one that is kept in the database.

    The first one makes tokens, all are believed.
    """

    def __init__(self, given: Sequence[SigningSecret] = ()) -> None:
        self._secrets = tuple(given)

    async def token(self, database: Database, grant: Grant) -> str:
        """The token for a grant: the same on every attempt at a notice."""
        secret, *_ = await self._all(database)
        return make_token(secret, grant)

    async def holder_of(self, database: Database, token: str) -> Holder | Lapsed | None:
        """Whom a token speaks for: a channel, about one pause.

        `Lapsed` where it was not made here, for a pause that there is; None if it is about nothing.
        """
        grant = read_token(await self._all(database), token)
        if grant is None:
            return await self._forged(database, token)
        principal = Principal(
            tenant=grant.tenant,
            name=f"{CHANNEL}{grant.channel}",
            scopes=frozenset({Scope.DECISIONS_WRITE}),
            credential=f"reply:{grant.pause_id}",
            only_pause=grant.pause_id,
        )
        return Holder(principal=principal, seconds_left=None)

    async def _forged(self, database: Database, token: str) -> Lapsed | None:
        """What a stranger's token claims; nothing of it is proven, so it is nobody's."""
        claimed = claimed_by(token)
        if claimed is None or not (is_plain(claimed.tenant) and is_plain(claimed.pause_id)):
            return None
        if not await pauses.exists(database, claimed.tenant, claimed.pause_id):
            return None
        principal = Principal(
            tenant=claimed.tenant,
            scopes=frozenset(),
            credential=f"reply:{claimed.pause_id}",
            only_pause=claimed.pause_id,
        )
        return Lapsed(principal=principal, flaw=Flaw.FORGED)

    async def _all(self, database: Database) -> Sequence[SigningSecret]:
        if not self._secrets:
            key = await service_secrets.kept(database, _NAME, new=os.urandom(32))
            self._secrets = (SigningSecret(key=key),)
        return self._secrets
