"""Row sources: arrays, tables, files and iterators as blocks of rows, with the preprocessing learned on the way."""

from squeak.data.blocks import Block, Cursor, block_rows
from squeak.data.generated import GeneratedRows
from squeak.data.opening import reopen, rows
from squeak.data.preprocessing import Preprocessing
from squeak.data.source import RowSource, gather
from squeak.data.streamed import DecidesBlocks, PredictsBlocks, TransformsBlocks, by_blocks

__all__ = [
    "Block",
    "Cursor",
    "DecidesBlocks",
    "GeneratedRows",
    "PredictsBlocks",
    "Preprocessing",
    "RowSource",
    "TransformsBlocks",
    "block_rows",
    "by_blocks",
    "gather",
    "reopen",
    "rows",
]
