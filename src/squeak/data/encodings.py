"""All encodings of a column, by the names that files and options have for them."""

from __future__ import annotations

from typing import Any

from squeak.data.columns import CodeColumn, DateColumn, NumberColumn, OneHotColumn
from squeak.data.target_columns import TargetColumn

Column = NumberColumn | DateColumn | OneHotColumn | CodeColumn | TargetColumn


def category_column(name: str, how: str, values: tuple[str, ...]) -> Column:
    """Return the encoding of a category: as 0/1 numbers (``"onehot"``) or as codes."""
    return OneHotColumn(name, values) if how == "onehot" else CodeColumn(name, values)


def column_to_data(column: Column) -> dict[str, Any]:
    """Return a column's encoding as JSON data."""
    data: dict[str, Any] = {"code": column.code, "name": column.name}
    if isinstance(column, DateColumn):
        data["kind"] = column.kind
    elif not isinstance(column, NumberColumn):
        data["values"] = list(column.values)
    return data | column.to_data() if isinstance(column, TargetColumn) else data


def column_from_data(data: Any) -> Column:
    """Return the encoding that :func:`column_to_data` described; anything unexpected is a ValueError."""
    if not isinstance(data, dict) or not isinstance(data.get("name"), str):
        raise ValueError("the description of a column is damaged")
    code, name = data.get("code"), data["name"]
    if code == NumberColumn.code:
        return NumberColumn(name)
    if code == DateColumn.code and data.get("kind") in ("date", "time", "duration"):
        return DateColumn(name, data["kind"])
    values = data.get("values")
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"the description of column {name!r} is damaged")
    if code == OneHotColumn.code:
        return OneHotColumn(name, tuple(values))
    if code == CodeColumn.code:
        return CodeColumn(name, tuple(values))
    if code == TargetColumn.code:
        return TargetColumn.from_data(name, values, data)
    raise ValueError(f"no column encoding is known by the name {code!r}")
