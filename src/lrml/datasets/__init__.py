"""Multi-label datasets: one embedded, readers of files, and their statistics."""

from lrml.datasets._arff import read_arff
from lrml.datasets._describe import Description, describe
from lrml.datasets._errors import ChecksumError, DatasetFormatError
from lrml.datasets._mulan import load_mulan
from lrml.datasets._names import NumberedNames
from lrml.datasets._record import MultiLabelDataset
from lrml.datasets._yeast import load_yeast

__all__ = [
    "ChecksumError",
    "DatasetFormatError",
    "Description",
    "MultiLabelDataset",
    "NumberedNames",
    "describe",
    "load_mulan",
    "load_yeast",
    "read_arff",
]
