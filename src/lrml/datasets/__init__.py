"""Multi-label datasets: readers, writers and fetchers, statistics, and synthetic data."""

from typing import TYPE_CHECKING

from lrml._lazy import lazy_names

if TYPE_CHECKING:
    from lrml.datasets._cache import DATA_HOME_VARIABLE, DatasetStatus, dataset_status
    from lrml.datasets._csv import read_csv
    from lrml.datasets._describe import Description, describe
    from lrml.datasets._download import DownloadError
    from lrml.datasets._errors import ChecksumError, DatasetFormatError
    from lrml.datasets._formats import (
        READ_FORMATS,
        WRITE_FORMATS,
        read_dataset,
        write_dataset,
        written_files,
    )
    from lrml.datasets._mulan import fetch_mulan
    from lrml.datasets._names import NumberedNames
    from lrml.datasets._pairs import read_svmlight, read_xmc, write_svmlight, write_xmc
    from lrml.datasets._parquet import read_parquet
    from lrml.datasets._record import MultiLabelDataset
    from lrml.datasets._registry import MulanEntry, mulan_entries
    from lrml.datasets._split import read_split
    from lrml.datasets._synthetic import LowRankTruth, make_low_rank_multilabel
    from lrml.datasets._yeast import load_yeast
    from lrml.datasets.arff import read_arff, write_arff

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
    "DATA_HOME_VARIABLE": "_cache",
    "DatasetFormatError": "_errors",
    "DatasetStatus": "_cache",
    "Description": "_describe",
    "DownloadError": "_download",
    "LowRankTruth": "_synthetic",
    "MulanEntry": "_registry",
    "MultiLabelDataset": "_record",
    "NumberedNames": "_names",
    "READ_FORMATS": "_formats",
    "WRITE_FORMATS": "_formats",
    "dataset_status": "_cache",
    "describe": "_describe",
    "fetch_mulan": "_mulan",
    "load_yeast": "_yeast",
    "make_low_rank_multilabel": "_synthetic",
    "mulan_entries": "_registry",
    "read_arff": "arff",
    "read_csv": "_csv",
    "read_dataset": "_formats",
    "read_parquet": "_parquet",
    "read_split": "_split",
    "read_svmlight": "_pairs",
    "read_xmc": "_pairs",
    "write_arff": "arff",
    "write_dataset": "_formats",
    "write_svmlight": "_pairs",
    "write_xmc": "_pairs",
    "written_files": "_formats",
}

if not TYPE_CHECKING:  # a type checker that saw this would believe in every name
    __getattr__, __dir__ = lazy_names(__name__, {name: f"{__name__}.{home}" for name, home in _HOMES.items()})
