"""Lets whom a notice was sent to decide its pause, by a token that goes out with it."""

import os
from collections.abc import Sequence
from typing import Final

from app.channels.reply_token import Grant, make_token, read_token
from app.channels.reply_token import (
    is_reply_token as is_reply_token,
)  # for whoever tells credentials apart
from app.channels.signing import SigningSecret
from app.domain.principal import CHANNEL, Principal, Scope
from app.errors import Forbidden
from app.storage import service_secrets
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

    async def holder_of(self, database: Database, token: str) -> Principal | None:
        """Whom a token speaks for: a channel, about one pause; None if it is none of ours."""
        grant = read_token(await self._all(database), token)
        if grant is None:
            return None
        return Principal(
            tenant=grant.tenant,
            name=f"{CHANNEL}{grant.channel}",
            scopes=frozenset({Scope.DECISIONS_WRITE}),
            credential=f"reply:{grant.pause_id}",
            only_pause=grant.pause_id,
        )

    async def _all(self, database: Database) -> Sequence[SigningSecret]:
        if not self._secrets:
            key = await service_secrets.kept(database, _NAME, new=os.urandom(32))
            self._secrets = (SigningSecret(key=key),)
        return self._secrets
