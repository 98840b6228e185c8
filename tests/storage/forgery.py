"""Files that look like models: taken apart, changed, and put together with a checksum that is right."""

import hashlib
import json
from dataclasses import dataclass, field


@dataclass
class Forgery:
    """The parts of a model file, to be changed at will."""

    header: dict  # tensors by name
    document: dict
    metadata: dict
    data: bytes
    raw_document: str | None = None  # in place of the document, if it is to be something odd
    prefix: str = ""  # of the header's JSON, just after the brace
    extra: list = field(default_factory=list)

    @classmethod
    def of(cls, content):
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        metadata = header.pop("__metadata__")
        return cls(header, json.loads(metadata["document"]), metadata, content[8 + length :])

    @property
    def model(self):
        return self.document["model"]

    @property
    def fitted(self):
        return self.document["model"]["fitted"]

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

    def bytes(self):
        document = json.dumps(self.document) if self.raw_document is None else self.raw_document
        metadata = self.metadata | {"document": document, "sha256": "0" * 64}
        text = json.dumps({"__metadata__": metadata} | self.header, separators=(",", ":"))
        text = (text[0] + self.prefix + text[1:]).encode()
        raw = len(text).to_bytes(8, "little") + text + self.data
        digest = hashlib.sha256(raw).hexdigest()
        return raw.replace(b'"sha256":"' + b"0" * 64, b'"sha256":"' + digest.encode())
