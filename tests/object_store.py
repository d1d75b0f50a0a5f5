"""An object store of the tests' own (moto), on a free port of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from needed import needed

SECRET = "v3ry.secret"


@contextmanager
def object_store(bucket: str) -> Iterator[Any]:
    """The client of a store with an empty bucket; the environment names it, for other processes too."""
    files = needed("s3fs").S3FileSystem
    needed("moto")
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "tester")
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_CONFIG_FILE", "/nonexistent")
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
        patch.setenv("NO_PROXY", "127.0.0.1")
        files.clear_instance_cache()  # which knows a store that was here before
        urlopen(Request(f"http://{host}:{port}/moto-api/reset", method="POST")).close()
        client = boto3.client("s3")
        client.create_bucket(Bucket=bucket)
        yield client
        client.close()
    files.clear_instance_cache()
    server.stop()


def put(client: Any, place: Path, prefix: str, bucket: str = "pictures") -> str:
    """Copies a folder into the store; returns its address there."""
    for file in sorted(place.rglob("*")):
        if file.is_file():
            key = f"{prefix}/{file.relative_to(place).as_posix()}"
            client.put_object(Bucket=bucket, Key=key, Body=file.read_bytes())
    return f"s3://{bucket}/{prefix}"
