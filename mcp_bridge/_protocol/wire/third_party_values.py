"""Reads values of libraries such as numpy and pandas by their public methods, without importing these libraries."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Collection, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

NO_DATA = object()
"""The result of `unfold` for a value without public data."""
_TO_LIST = ("tolist", "to_list", "to_dicts", "to_pylist")
"""Methods that return data: of numpy, torch, jax and pandas; of polars (two); and of pyarrow."""


def unfold(value: Any) -> Any:
    """Return the data of an object as a list, mapping or iterator of further values, or a plain scalar.

    Raises the errors of the object's methods.
    """
    value_type = type(value)
    if issubclass(value_type, type):
        return NO_DATA
    if dataclasses.is_dataclass(value_type):
        return {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
    if callable(getattr(value_type, "model_dump", None)):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(getattr(value_type, "__fields__", None), Mapping) and callable(getattr(value_type, "dict", None)):
        # The value is a model of pydantic 1.
        return value.dict(by_alias=True)
    attributes = getattr(value_type, "__attrs_attrs__", None)
    if attributes is not None:
        return {item.name: getattr(value, item.name) for item in attributes}
    if issubclass(value_type, SimpleNamespace):
        return vars(value)
    if callable(getattr(value_type, "reset_index", None)):
        return _unfold_pandas(value)
    for name in _TO_LIST:
        if callable(getattr(value_type, name, None)):
            return _unfold_array(value, name)
    pandas = sys.modules.get("pandas")
    if pandas is not None and value is getattr(pandas, "NA", NO_DATA):
        return None
    return value if issubclass(value_type, Iterator | Collection) else NO_DATA


def _unfold_array(value: Any, method: str) -> Any:
    """Return the data of an array or scalar by the method of this name."""
    # numpy writes types as "<M8[ns]": a byte order, the type (M8 is a date, m8 a duration) and its unit.
    code = getattr(getattr(value, "dtype", None), "str", "")
    if code[1:4] in ("M8[", "m8[") and code[4:] in ("ns]", "ps]", "fs]", "as]"):
        # Python's dates have microseconds, and `tolist` returns finer ones as integers.
        value = value.astype(f"{code[1]}8[us]")
    data = getattr(value, method)()
    # `tolist` of some scalars, such as numpy's longdouble, returns the scalar itself.
    return float(data) if type(data) is type(value) else data


def _unfold_pandas(value: Any) -> Any:
    """Return a Series as a list, and a DataFrame as a list of rows. Missing values become None.

    If the index has labels instead of positions, a Series becomes a mapping with the labels as keys, and the rows of a
    DataFrame get columns with the labels.
    """
    index = value.index
    has_labels = index.dtype.kind not in "iu" or any(name is not None for name in index.names)
    value = value.astype(object).where(value.notna(), None)
    if not hasattr(value, "columns"):
        if not has_labels:
            return value.tolist()
        if index.is_unique:
            return dict(zip(index.tolist(), value.tolist(), strict=True))
        value = value.rename("value" if value.name is None else value.name)
    if has_labels:
        value = value.reset_index(allow_duplicates=True)
    if value.columns.is_unique:
        return value.to_dict("records")
    return {"columns": value.columns.tolist(), "rows": value.to_numpy().tolist()}
