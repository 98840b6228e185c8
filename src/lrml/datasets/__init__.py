"""Multi-label datasets: readers, writers and fetchers, statistics, and synthetic data."""

from lrml.datasets._arff import read_arff
from lrml.datasets._arff_writer import write_arff
from lrml.datasets._csv import read_csv
from lrml.datasets._describe import Description, describe
from lrml.datasets._download import DownloadError
from lrml.datasets._errors import ChecksumError, DatasetFormatError
from lrml.datasets._formats import read_dataset, write_dataset
from lrml.datasets._mulan import fetch_mulan
from lrml.datasets._names import NumberedNames
from lrml.datasets._parquet import read_parquet
from lrml.datasets._record import MultiLabelDataset
from lrml.datasets._svmlight import read_svmlight, write_svmlight
from lrml.datasets._synthetic import LowRankTruth, make_low_rank_multilabel
from lrml.datasets._xmc import read_xmc, write_xmc
from lrml.datasets._yeast import load_yeast

__all__ = [
    "ChecksumError",
    "DatasetFormatError",
    "Description",
    "DownloadError",
    "LowRankTruth",
    "MultiLabelDataset",
    "NumberedNames",
    "describe",
    "fetch_mulan",
    "load_yeast",
    "make_low_rank_multilabel",
    "read_arff",
    "read_csv",
    "read_dataset",
    "read_parquet",
    "read_svmlight",
    "read_xmc",
    "write_arff",
    "write_dataset",
    "write_svmlight",
    "write_xmc",
]
