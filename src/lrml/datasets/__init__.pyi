from ._dataset import Columns, Dataset, NumberedNames, TextDataset
from ._describe import describe
from ._fetch import (
    dataset_status,
    fetch_files,
    fetch_mulan,
    fetch_multi_target,
    load_yeast,
    mulan_entries,
)
from ._lines import FORMATS, DatasetFormatError
from ._roles import Roles
from ._source import Source, open_source, read_dataset
from ._synthetic import make_tagged_texts
from ._write import RecordWriter, files_of, write_dataset

__all__ = [
    "FORMATS",
    "Columns",
    "Dataset",
    "DatasetFormatError",
    "NumberedNames",
    "RecordWriter",
    "Roles",
    "Source",
    "TextDataset",
    "dataset_status",
    "describe",
    "fetch_files",
    "fetch_mulan",
    "fetch_multi_target",
    "files_of",
    "load_yeast",
    "make_tagged_texts",
    "mulan_entries",
    "open_source",
    "read_dataset",
    "write_dataset",
]
