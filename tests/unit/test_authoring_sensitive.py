"""`Sensitive` marks the schema wherever it stands, and the schema itself tells nothing."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from app.authoring import Sensitive, tool
from app.authoring.shape import adapter_of, schema_of
from app.domain.masking import mask, sensitive_paths


class Login(BaseModel):
    name: str
    password: Annotated[str, Sensitive] = "preset"


class Job(BaseModel):
    logins: list[Login]
    by_host: dict[str, Annotated[str, Sensitive]]
    token: Annotated[str | None, Sensitive] = None
    pin: Annotated[int, Sensitive, Field(examples=[4711])] = 1234
    vault: Annotated[Login, Sensitive] = Login(name="root", password="hunter2")
    spare: Login = Login(name="spare", password="hunter3")
    either: Annotated[str, Sensitive] | int = 0


def test_a_mark_is_found_on_fields_items_values_models_and_branches():
    assert sensitive_paths(Job.model_json_schema()) == [
        "/by_host/*",
        "/either",
        "/logins/*/password",
        "/pin",
        "/spare/password",
        "/token",
        "/vault",
    ]


def test_plain_parameters_and_results_can_be_marked():
    @tool
    async def login(
        name: str, password: Annotated[str, Sensitive]
    ) -> Annotated[str, Sensitive]: ...

    assert sensitive_paths(login.arguments_schema) == ["/password"]
    assert sensitive_paths(login.result_schema) == [""]


def test_a_schema_tells_no_sensitive_default_or_example():
    shown = repr(schema_of(adapter_of(Job)))
    for secret in ("preset", "4711", "1234", "hunter2", "hunter3"):
        assert secret not in shown


class Node(BaseModel):
    key: Annotated[str, Sensitive] = "preset"
    below: list["Node"] = []


def test_a_model_that_holds_itself_shows_its_members_at_the_top():
    @tool
    async def grow(node: Node) -> None: ...

    assert grow.arguments_schema["type"] == "object"
    assert "preset" not in repr(grow.arguments_schema)
    arguments = grow.dump_arguments(grow.read_arguments({"below": [{"key": "a"}]}))
    masked = mask(arguments, grow.arguments_schema)
    assert masked == {"key": "***", "below": [{"key": "***", "below": []}]}


def test_a_plain_default_and_a_property_called_default_stay():
    class Odd(BaseModel):
        default: int = 7
        secret: Annotated[str, Sensitive] = "x"

    properties: dict[str, Any] = schema_of(adapter_of(Odd))["properties"]
    assert properties["default"]["default"] == 7


def test_a_tool_reads_the_true_value_and_others_read_stars():
    @tool
    async def work(job: Job) -> str: ...

    arguments: dict[str, Any] = {"logins": [{"name": "a", "password": "b"}], "by_host": {"h": "c"}}
    dumped = work.dump_arguments(work.read_arguments(arguments))
    assert dumped["logins"][0]["password"] == "b"
    masked = mask(dumped, work.arguments_schema)
    assert masked["logins"] == [{"name": "a", "password": "***"}]
    assert masked["by_host"] == {"h": "***"}
    assert masked["vault"] == masked["pin"] == "***"
    assert masked["token"] is None
