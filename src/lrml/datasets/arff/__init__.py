"""Multi-label ARFF files, in the manner of Mulan and of MEKA: reading and writing."""

from lrml.datasets.arff._reader import arff_blocks, read_arff, says_split
from lrml.datasets.arff._writer import write_arff

__all__ = ["arff_blocks", "read_arff", "says_split", "write_arff"]
