"""The mark of values that nobody but the tool itself may see."""

from typing import Any

from pydantic import GetJsonSchemaHandler

from app.domain.masking import MARK


class Sensitive:
    """Marks a type: `Annotated[str, Sensitive]` is `"***"` everywhere but in the tool itself.

    It may stand on a field, a tool's parameter, an item of a list, one branch of a union, or a
    whole model.
    """

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: Any, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(core), MARK: True}
