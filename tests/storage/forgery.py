"""Files that look like models: taken apart, changed, and put together with a checksum that is right."""

import hashlib
import json
from dataclasses import dataclass, field

NAMES = {"F64": "float64", "F32": "float32", "I64": "int64", "I32": "int32", "U8": "uint8", "BOOL": "bool"}


@dataclass
class Forgery:
    """The parts of a model file, to be changed at will."""

    header: dict  # tensors by name
    document: dict
    data: bytes
    raw_document: str | None = None  # in place of the document, if it is to be something odd
    extra: list = field(default_factory=list)

    @classmethod
    def of(cls, content):
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        metadata = header.pop("__metadata__")
        return cls(header, json.loads(metadata["lrml"][65:]), content[8 + length :])

    @property
    def model(self):
        return self.document["model"]

    @property
    def fields(self):
        return self.model["fitted"]["fitted_"]["fields"]

    def replace(self, name, new, dtype=None, shape=None):
        """Put other bytes in the place of a tensor; later ones move."""
        begin, end = self.header[name]["data_offsets"]
        self.data = self.data[:begin] + new + self.data[end:]
        moved = len(new) - (end - begin)
        for key, entry in self.header.items():
            first, last = entry["data_offsets"]
            if key != name and first >= end:
                entry["data_offsets"] = [first + moved, last + moved]
        self.header[name]["data_offsets"] = [begin, end + moved]
        self.header[name]["dtype"] = dtype or self.header[name]["dtype"]
        self.header[name]["shape"] = shape if shape is not None else self.header[name]["shape"]

    def digest(self, text):
        """The checksum as docs/models.md states it; whatever it is for tensors that are none."""
        found = hashlib.sha256(text.encode())
        for name in sorted(self.header):
            try:
                entry = self.header[name]
                found.update(f"{name}\0{NAMES[entry['dtype']]}\0{tuple(entry['shape'])}\0".encode())
                found.update(self.data[slice(*entry["data_offsets"])])
            except (KeyError, TypeError, ValueError):
                continue
        return found.hexdigest()

    def bytes(self):
        said = json.dumps(self.document) if self.raw_document is None else self.raw_document
        metadata = {"lrml": f"{self.digest(said)} {said}"}
        text = json.dumps({"__metadata__": metadata} | self.header, separators=(",", ":")).encode()
        return len(text).to_bytes(8, "little") + text + self.data
