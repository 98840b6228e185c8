"""Multi-label datasets: readers, writers and fetchers, statistics, and synthetic data."""

from typing import TYPE_CHECKING

from lrml._lazy import lazy_names

if TYPE_CHECKING:
    from lrml.datasets._arff import read_arff
    from lrml.datasets._arff_writer import write_arff
    from lrml.datasets._describe import Description, describe
    from lrml.datasets._errors import ChecksumError, DatasetFormatError, DownloadError
    from lrml.datasets._format_names import READ_FORMATS, WRITE_FORMATS
    from lrml.datasets._formats import read_dataset, write_dataset, written_files
    from lrml.datasets._mulan import fetch_mulan, load_yeast
    from lrml.datasets._record import MultiLabelDataset, NumberedNames
    from lrml.datasets._registry import (
        DATA_HOME_VARIABLE,
        DatasetStatus,
        MulanEntry,
        dataset_status,
        mulan_entries,
    )
    from lrml.datasets._split import read_split
    from lrml.datasets._svmlight import read_svmlight, write_svmlight
    from lrml.datasets._synthetic import LowRankTruth, make_low_rank_multilabel
    from lrml.datasets._tables import read_csv, read_parquet
    from lrml.datasets._xmc import read_xmc, write_xmc

__all__ = [
    "DATA_HOME_VARIABLE",
    "READ_FORMATS",
    "WRITE_FORMATS",
    "ChecksumError",
    "DatasetFormatError",
    "DatasetStatus",
    "Description",
    "DownloadError",
    "LowRankTruth",
    "MulanEntry",
    "MultiLabelDataset",
    "NumberedNames",
    "dataset_status",
    "describe",
    "fetch_mulan",
    "load_yeast",
    "make_low_rank_multilabel",
    "mulan_entries",
    "read_arff",
    "read_csv",
    "read_dataset",
    "read_parquet",
    "read_split",
    "read_svmlight",
    "read_xmc",
    "write_arff",
    "write_dataset",
    "write_svmlight",
    "write_xmc",
    "written_files",
]

# Each reader imports what it needs, so that a list of datasets needs neither NumPy nor scikit-learn.
_HOMES = {
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
    "READ_FORMATS": "_format_names",
    "WRITE_FORMATS": "_format_names",
    "dataset_status": "_registry",
    "describe": "_describe",
    "fetch_mulan": "_mulan",
    "load_yeast": "_mulan",
    "make_low_rank_multilabel": "_synthetic",
    "mulan_entries": "_registry",
    "read_arff": "_arff",
    "read_csv": "_tables",
    "read_dataset": "_formats",
    "read_parquet": "_tables",
    "read_split": "_split",
    "read_svmlight": "_svmlight",
    "read_xmc": "_xmc",
    "write_arff": "_arff_writer",
    "write_dataset": "_formats",
    "write_svmlight": "_svmlight",
    "write_xmc": "_xmc",
    "written_files": "_formats",
}

if not TYPE_CHECKING:  # a type checker that saw this would believe in every name
    __getattr__, __dir__ = lazy_names(__name__, {name: f"{__name__}.{home}" for name, home in _HOMES.items()})
