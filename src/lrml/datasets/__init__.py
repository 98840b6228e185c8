"""Multi-label datasets: sources of rows in any format, writers, statistics, synthetic data."""

from typing import TYPE_CHECKING

from lrml._lazy import lazy_names

if TYPE_CHECKING:
    from lrml.datasets._dataset import Dataset, NumberedNames, Schema, TextDataset
    from lrml.datasets._describe import describe
    from lrml.datasets._fetch import dataset_status, fetch_mulan, load_yeast, mulan_entries
    from lrml.datasets._formats import FORMATS
    from lrml.datasets._lines import DatasetFormatError
    from lrml.datasets._open import open_source, read_dataset
    from lrml.datasets._roles import Roles
    from lrml.datasets._source import Source
    from lrml.datasets._synthetic import make_low_rank_multilabel, make_tagged_texts
    from lrml.datasets._write import PredictionWriter, files_of, write_dataset

__all__ = ["FORMATS", "Dataset", "DatasetFormatError", "NumberedNames", "PredictionWriter", "Roles", "Schema"]
__all__ += ["Source", "TextDataset", "dataset_status", "describe", "fetch_mulan", "files_of", "load_yeast"]
__all__ += ["make_low_rank_multilabel", "make_tagged_texts", "mulan_entries", "open_source", "read_dataset"]
__all__ += ["write_dataset"]

# Each module imports what it needs, so listing datasets needs neither NumPy nor scikit-learn.
_HOMES = {
    "_dataset": "Dataset NumberedNames Schema TextDataset",
    "_describe": "describe",
    "_fetch": "dataset_status fetch_mulan load_yeast mulan_entries",
    "_formats": "FORMATS",
    "_lines": "DatasetFormatError",
    "_roles": "Roles",
    "_open": "open_source read_dataset",
    "_source": "Source",
    "_synthetic": "make_low_rank_multilabel make_tagged_texts",
    "_write": "PredictionWriter files_of write_dataset",
}

if not TYPE_CHECKING:  # with this, a type checker would accept any name
    homes = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names.split()}
    __getattr__, __dir__ = lazy_names(__name__, homes)
