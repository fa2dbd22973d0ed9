"""Sealing: what was sealed is opened again, in its place alone, by whoever has the key."""

import base64
import os

import pytest

from app.domain.json import Json
from app.storage.sealing import PLAIN, BadKey, CannotOpen, Vault, parse_keys

OLD, NEW = (base64.b64encode(os.urandom(32)).decode() for _ in range(2))
AT = ("pauses.secret", "run_1", "pau_1")

VALUES: list[Json] = [
    "canary",
    "",
    0,
    False,
    [],
    {},
    {"deep": [{"er": "canary"}]},
    {"$sealed": "abc.def"},
    {"$plain": {"$sealed": 1}},
    "é\u2028🦉" * 1000,
]


def vault(*keys: str) -> Vault:
    return Vault(parse_keys(keys))


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("keys", [(), (OLD,), (NEW, OLD)])
def test_what_was_sealed_is_opened_again(keys: tuple[str, ...], value: Json) -> None:
    sealing = vault(*keys)
    assert sealing.open(sealing.seal(value, *AT), *AT) == value


@pytest.mark.parametrize("value", VALUES)
def test_what_was_stored_in_clear_is_read_once_there_are_keys(value: Json) -> None:
    assert vault(NEW).open(PLAIN.seal(value, *AT), *AT) == value


def test_the_first_key_seals_and_all_open() -> None:
    sealed = vault(OLD).seal("canary", *AT)
    assert vault(NEW, OLD).open(sealed, *AT) == "canary"
    with pytest.raises(CannotOpen, match="lacks an encryption key"):
        vault(NEW).open(sealed, *AT)
    with pytest.raises(CannotOpen, match="lacks an encryption key"):
        PLAIN.open(sealed, *AT)
    with pytest.raises(CannotOpen):
        vault(OLD).open(vault(NEW, OLD).seal("canary", *AT), *AT)


@pytest.mark.parametrize(
    "place",
    [
        ("pauses.answer", "run_1", "pau_1"),
        ("pauses.secret", "run_2", "pau_1"),
        ("pauses.secret", "run_1", "pau_2"),
        ("pauses.secret", "run_1"),
    ],
)
def test_what_was_sealed_for_one_place_holds_in_no_other(place: tuple[str, str]) -> None:
    sealing = vault(OLD)
    with pytest.raises(CannotOpen, match="not what was sealed"):
        sealing.open(sealing.seal("canary", *AT), *place)
    with pytest.raises(CannotOpen, match="not what was sealed"):
        sealing.open_bytes(sealing.seal_bytes(b"canary", *AT), *place)


def test_a_changed_byte_is_noticed() -> None:
    sealing = vault(OLD)
    sealed = bytearray(sealing.seal_bytes(b"canary", *AT))
    sealed[-1] ^= 1
    with pytest.raises(CannotOpen):
        sealing.open_bytes(bytes(sealed), *AT)
    with pytest.raises(CannotOpen):
        sealing.open_bytes(bytes(sealed[:30]), *AT)


def test_bytes_are_sealed_with_keys_and_left_alone_without() -> None:
    body = b"msgpack:canary"
    assert PLAIN.seal_bytes(body, *AT) is body
    sealed = vault(OLD).seal_bytes(body, *AT)
    assert b"canary" not in sealed
    assert vault(NEW, OLD).open_bytes(sealed, *AT) == body


def test_the_same_value_is_never_sealed_to_the_same_text() -> None:
    sealing = vault(OLD)
    assert len({str(sealing.seal("canary", *AT)) for _ in range(100)}) == 100


def test_nothing_stays_nothing() -> None:
    assert vault(OLD).seal(None, *AT) is None
    assert vault(OLD).open(None, *AT) is None


@pytest.mark.parametrize(
    "text",
    ["", "short", "ü" * 44, base64.b64encode(os.urandom(31)).decode()],
    ids=["empty", "short", "no base64", "31 bytes"],
)
def test_what_is_no_key_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(BadKey) as error:
        parse_keys([text])
    assert not text or text not in error.value.message
