"""Keeps sensitive values out of everything that people and receivers read.

A value is sensitive where its JSON Schema says `"x-sensitive": true`; so one walk over value and schema
serves arguments, inputs, outputs and overrides, nested and in lists. Where a schema leaves open which of
several branches a value takes, a value is masked if any branch would mask it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from app.domain.json import Json, keyed_hash, pointer_token, sha256

MASK = "***"
MARK = "x-sensitive"
Schema = Mapping[str, Any]


def mask(value: Json, schema: Schema) -> Json:
    """`value` with every sensitive value replaced by `"***"`; null stays null."""
    return _Walk(schema).replaced(value, _masked)


def sensitive_paths(schema: Schema) -> list[str]:
    """JSON pointers of what is sensitive in values of `schema`; `*` stands for any item or key."""
    return sorted(_Walk(schema).paths())


def secrets_in(value: Json, schema: Schema) -> frozenset[str]:
    """The texts of all sensitive values in `value`, for `scrub`."""
    found: set[str] = set()

    def note(secret: Json) -> Json:
        found.update(_texts(secret))
        return MASK

    _Walk(schema).replaced(value, note)
    return frozenset(found)


def scrub(text: str, secrets: frozenset[str]) -> str:
    """`text` with every occurrence of a secret replaced: for messages whose wording is not ours."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def restore(edited: Json, true: Json, schema: Schema) -> Json:
    """`edited` with each sensitive value that is absent or still masked taken from `true`."""
    return _Walk(schema).restored(edited, true)


def digest_of(tool: str, arguments: Json, schema: Schema, salt: str) -> str:
    """The digest of a call: SHA-256 (hex) over the canonical JSON (RFC 8785) of tool and arguments.

    A sensitive value stands in it as an HMAC under `salt`, so that a digest that everybody may read
    does not let anybody test guesses of a password.
    """
    bound = _Walk(schema).replaced(arguments, _keyed(salt))
    return sha256({"tool": tool, "arguments": bound})


def _masked(_: Json) -> Json:
    return MASK


def _keyed(salt: str) -> Callable[[Json], Json]:
    def keyed(secret: Json) -> Json:
        return {MARK: keyed_hash(salt, secret)}

    return keyed


class _Walk:
    """One schema, walked beside a value."""

    def __init__(self, schema: Schema) -> None:
        self.root = schema
        self.definitions: Mapping[str, Schema] = (
            schema.get("$defs") or schema.get("definitions") or {}
        )
        self.plain = MARK not in repr(schema)

    def replaced(self, value: Json, put: Callable[[Json], Json]) -> Json:
        if self.plain:
            return value
        return self._replace(value, [self.root], put)

    def _replace(self, value: Json, schemas: list[Schema], put: Callable[[Json], Json]) -> Json:
        views = self._expand(schemas)
        if any(view.get(MARK) for view in views):
            return None if value is None else put(value)
        match value:
            case dict():
                members = cast("dict[str, Json]", value)
                return {
                    key: self._replace(each, _of_member(views, key), put)
                    for key, each in members.items()
                }
            case list():
                items = cast("list[Json]", value)
                return [
                    self._replace(each, _of_item(views, at), put) for at, each in enumerate(items)
                ]
            case _:
                return value

    def restored(self, edited: Json, true: Json) -> Json:
        if self.plain:
            return edited
        return self._restore(edited, true, [self.root])

    def _restore(self, edited: Json, true: Json, schemas: list[Schema]) -> Json:
        views = self._expand(schemas)
        if any(view.get(MARK) for view in views):
            return true if edited == MASK else edited
        if isinstance(edited, dict) and isinstance(true, dict):
            return self._restore_members(
                cast("dict[str, Json]", edited), cast("dict[str, Json]", true), views
            )
        if isinstance(edited, list) and isinstance(true, list):
            before = cast("list[Json]", true)
            return [
                self._restore(each, before[at] if at < len(before) else None, _of_item(views, at))
                for at, each in enumerate(cast("list[Json]", edited))
            ]
        return cast("Json", edited)

    def _restore_members(
        self, edited: dict[str, Json], true: dict[str, Json], views: list[Schema]
    ) -> dict[str, Json]:
        whole = {
            key: self._restore(each, true.get(key), _of_member(views, key))
            for key, each in edited.items()
        }
        for key, each in true.items():
            if key not in whole and self._is_sensitive(_of_member(views, key)):
                whole[key] = each
        return whole

    def _is_sensitive(self, schemas: list[Schema]) -> bool:
        return any(view.get(MARK) for view in self._expand(schemas))

    def _expand(self, schemas: list[Schema]) -> list[Schema]:
        """The schemas with references followed and every branch of their unions beside them."""
        seen: set[int] = set()
        views: list[Schema] = []
        open_schemas = list(schemas)
        while open_schemas:
            schema = open_schemas.pop()
            if id(schema) in seen:
                continue
            seen.add(id(schema))
            views.append(schema)
            if "$ref" in schema:
                open_schemas.append(self.definitions[str(schema["$ref"]).rpartition("/")[2]])
            for union in ("anyOf", "oneOf", "allOf"):
                open_schemas += cast("list[Schema]", schema.get(union, []))
        return views

    def paths(self) -> Iterator[str]:
        if not self.plain:
            yield from self._paths([self.root], "", frozenset())

    def _paths(self, schemas: list[Schema], pointer: str, above: frozenset[int]) -> Iterator[str]:
        views = [view for view in self._expand(schemas) if id(view) not in above]
        if any(view.get(MARK) for view in views):
            yield pointer
            return
        inside = above | {id(view) for view in views}
        keys = {key for view in views for key in view.get("properties", {})}
        for key in sorted(keys):
            yield from self._paths(
                _of_member(views, key), f"{pointer}/{pointer_token(key)}", inside
            )
        rest = _of_member(views, None) + _of_item(views, None)
        if rest:
            yield from self._paths(rest, f"{pointer}/*", inside)


def _of_member(views: list[Schema], key: str | None) -> list[Schema]:
    found: list[Schema] = []
    for view in views:
        named = view.get("properties", {}).get(key)
        rest = view.get("additionalProperties")
        if named is not None:
            found.append(named)
        elif isinstance(rest, Mapping):
            found.append(cast("Schema", rest))
        found += view.get("patternProperties", {}).values()
    return found


def _of_item(views: list[Schema], at: int | None) -> list[Schema]:
    found: list[Schema] = []
    for view in views:
        first = cast("list[Schema]", view.get("prefixItems", []))
        if at is None:
            found += first
        elif at < len(first):
            found.append(first[at])
        rest = view.get("items")
        if isinstance(rest, Mapping):
            found.append(cast("Schema", rest))
    return found


def _texts(secret: Json) -> Iterator[str]:
    match secret:
        case str() if secret:
            yield secret
        case dict():
            for each in cast("dict[str, Json]", secret).values():
                yield from _texts(each)
        case list():
            for each in cast("list[Json]", secret):
                yield from _texts(each)
        case bool() | None:
            return
        case int() | float():
            yield str(secret)
        case _:
            return
