"""Multi-label datasets: readers, writers and fetchers, statistics, and synthetic data."""

from typing import TYPE_CHECKING

from lrml._lazy import lazy_names

if TYPE_CHECKING:
    from lrml.datasets._block_file import BlockFile
    from lrml.datasets._describe import Description, describe
    from lrml.datasets._errors import ChecksumError, DatasetFormatError, DownloadError
    from lrml.datasets._formats import (
        READ_FORMATS,
        TEXT_FORMATS,
        WRITE_FORMATS,
        iter_blocks,
        read_dataset,
        write_dataset,
        written_files,
    )
    from lrml.datasets._mulan import fetch_mulan, load_yeast
    from lrml.datasets._pairs import read_svmlight, read_xmc, write_svmlight, write_xmc
    from lrml.datasets._predictions import PREDICTION_FORMATS, PredictionWriter
    from lrml.datasets._record import Block, MultiLabelDataset, NumberedNames
    from lrml.datasets._registry import (
        DATA_HOME_VARIABLE,
        DatasetStatus,
        MulanEntry,
        dataset_status,
        mulan_entries,
    )
    from lrml.datasets._roles import Roles
    from lrml.datasets._split import read_split
    from lrml.datasets._synthetic import LowRankTruth, make_low_rank_multilabel
    from lrml.datasets._tables import read_csv, read_parquet
    from lrml.datasets._tagged_texts import make_tagged_texts, write_texts
    from lrml.datasets._texts import TextDataset, guess_roles, iter_texts, read_texts
    from lrml.datasets._topics import TopicTruth, make_xmc
    from lrml.datasets.arff import read_arff, write_arff

__all__ = [
    "DATA_HOME_VARIABLE",
    "PREDICTION_FORMATS",
    "READ_FORMATS",
    "TEXT_FORMATS",
    "WRITE_FORMATS",
    "Block",
    "BlockFile",
    "ChecksumError",
    "DatasetFormatError",
    "DatasetStatus",
    "Description",
    "DownloadError",
    "LowRankTruth",
    "MulanEntry",
    "MultiLabelDataset",
    "NumberedNames",
    "PredictionWriter",
    "Roles",
    "TextDataset",
    "TopicTruth",
    "dataset_status",
    "describe",
    "fetch_mulan",
    "guess_roles",
    "iter_blocks",
    "iter_texts",
    "load_yeast",
    "make_low_rank_multilabel",
    "make_tagged_texts",
    "make_xmc",
    "mulan_entries",
    "read_arff",
    "read_csv",
    "read_dataset",
    "read_parquet",
    "read_split",
    "read_svmlight",
    "read_texts",
    "read_xmc",
    "write_arff",
    "write_dataset",
    "write_svmlight",
    "write_texts",
    "write_xmc",
    "written_files",
]

# Each reader imports what it needs, so listing datasets needs neither NumPy nor scikit-learn.
_HOMES = {
    "Block": "_record",
    "BlockFile": "_block_file",
    "ChecksumError": "_errors",
    "DATA_HOME_VARIABLE": "_registry",
    "DatasetFormatError": "_errors",
    "DatasetStatus": "_registry",
    "Description": "_describe",
    "DownloadError": "_errors",
    "LowRankTruth": "_synthetic",
    "MulanEntry": "_registry",
    "MultiLabelDataset": "_record",
    "NumberedNames": "_record",
    "PREDICTION_FORMATS": "_predictions",
    "PredictionWriter": "_predictions",
    "READ_FORMATS": "_formats",
    "Roles": "_roles",
    "TEXT_FORMATS": "_formats",
    "TextDataset": "_texts",
    "TopicTruth": "_topics",
    "WRITE_FORMATS": "_formats",
    "dataset_status": "_registry",
    "describe": "_describe",
    "fetch_mulan": "_mulan",
    "guess_roles": "_texts",
    "iter_blocks": "_formats",
    "iter_texts": "_texts",
    "load_yeast": "_mulan",
    "make_low_rank_multilabel": "_synthetic",
    "make_tagged_texts": "_tagged_texts",
    "make_xmc": "_topics",
    "mulan_entries": "_registry",
    "read_arff": "arff",
    "read_csv": "_tables",
    "read_dataset": "_formats",
    "read_parquet": "_tables",
    "read_split": "_split",
    "read_svmlight": "_pairs",
    "read_texts": "_texts",
    "read_xmc": "_pairs",
    "write_arff": "arff",
    "write_dataset": "_formats",
    "write_svmlight": "_pairs",
    "write_texts": "_tagged_texts",
    "write_xmc": "_pairs",
    "written_files": "_formats",
}

if not TYPE_CHECKING:  # with this, a type checker would accept any name
    __getattr__, __dir__ = lazy_names(__name__, {name: f"{__name__}.{home}" for name, home in _HOMES.items()})
