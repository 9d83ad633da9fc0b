"""Row sources: arrays, tables, files and iterators as blocks of rows, with the preprocessing learned on the way."""

from squeak.core.sources.opening import reopen, rows
from squeak.core.sources.preprocessing import Preprocessing
from squeak.core.sources.source import Block, Cursor, RowSource, block_rows, gather

__all__ = ["Block", "Cursor", "Preprocessing", "RowSource", "block_rows", "gather", "reopen", "rows"]
