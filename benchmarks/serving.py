"""`lrml serve` under load on this machine: latency percentiles, requests per second, errors.

python benchmarks/serving.py [--seconds 10] [--clients 1 8 32] [--texts 1 32]

The model tags made-up texts: 20,000 words, 500 tags, rank 50. Clients of one process send a request as soon
as the last one is answered. Ends with status 1 if any request fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import httpx
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

import lrml
from lrml import CPLST, TextTagger

WORDS, TAGS, DOCUMENTS, RANK, LENGTH = 20_000, 500, 4000, 50, 60


def made_up_texts(n: int, rng: np.random.Generator) -> list[str]:
    """Return texts whose words have frequencies as in Zipf's law."""
    words = np.minimum(rng.zipf(1.2, (n, LENGTH)), WORDS)
    return [" ".join(f"w{word}" for word in row) for row in words]


def fitted_model(rng: np.random.Generator) -> TextTagger:
    texts = made_up_texts(DOCUMENTS, rng)
    texts.append(" ".join(f"w{word}" for word in range(1, WORDS + 1)))  # so that all words occur
    tags = [[f"tag {tag}" for tag in set(np.minimum(rng.zipf(1.5, 5), TAGS).tolist())] for _ in texts]
    tags[-1] = [f"tag {tag}" for tag in range(1, TAGS + 1)]
    model = CPLST(RANK, ridge=1.0)
    return TextTagger(model, vectorizer=TfidfVectorizer(sublinear_tf=True)).fit(texts, tags)


async def load(address: str, bodies: list[bytes], clients: int, seconds: float) -> tuple[list[float], int]:
    """Return the seconds of every answered request, and the number of others."""
    times: list[float] = []
    errors = 0
    end = perf_counter() + seconds

    async def one_client(place: int, connection: httpx.AsyncClient) -> None:
        nonlocal errors
        while (start := perf_counter()) < end:
            try:
                answer = await connection.post("/predict", content=bodies[place % len(bodies)])
                failed = answer.status_code != 200
            except httpx.HTTPError:
                failed = True
            errors += failed
            times.append(perf_counter() - start)
            place += clients

    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=address, timeout=60, limits=limits) as connection:
        await asyncio.gather(*(one_client(place, connection) for place in range(clients)))
    return times, errors


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--texts", type=int, nargs="+", default=[1, 32], help="texts in a request")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    texts = made_up_texts(2000, rng)
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.lrml"
        lrml.save(fitted_model(rng), path)
        command = [sys.executable, "-m", "lrml", "serve", str(path), "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                address = next(word for word in server.stdout.readline().split() if word.startswith("http"))
                print("texts  clients  requests/s  texts/s  p50 ms  p95 ms  p99 ms  errors")
                for size in options.texts:
                    blocks = (texts[start : start + size] for start in range(0, len(texts) - size + 1, size))
                    bodies = [json.dumps({"texts": block, "k": 5}).encode() for block in blocks]
                    for clients in options.clients:
                        asyncio.run(load(address, bodies, clients, 1.0))  # warm up
                        start = perf_counter()
                        times, errors = asyncio.run(load(address, bodies, clients, options.seconds))
                        rate = len(times) / (perf_counter() - start)
                        p50, p95, p99 = 1e3 * np.percentile(times, [50, 95, 99])
                        print(
                            f"{size:5}  {clients:7}  {rate:10.0f}  {rate * size:7.0f}  "
                            f"{p50:6.1f}  {p95:6.1f}  {p99:6.1f}  {errors:6}"
                        )
                        failures += errors
            finally:
                server.terminate()
            if code := server.wait(60):
                print(f"the server must stop with status 0, got {code}.", file=sys.stderr)
                failures += 1
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
