"""Buckets as the runs on a pod see them: folders, by Cloud Storage FUSE.

A run writes plain files: `gs://NAME/FOLDER` is mounted on every host as `/gcs/NAME`.
"""

import re

ROOT = "/gcs"
MOUNT_OPTIONS = (  # by the names of gcsfuse's flags
    # What one host has closed, the others see at once. By default they remember for a minute what a
    # file was, on TPUs for ever, and for five seconds that there was none.
    "metadata-cache-ttl-secs=0",
    "metadata-cache-negative-ttl-secs=0",
    "implicit-dirs",  # folders that nobody has made, but `gcloud storage cp` has written into
    "rename-dir-limit=200000",  # objects; of a folder in a bucket without hierarchical namespace
)


def bucket_name(path: str) -> str | None:
    """NAME of gs://NAME/FOLDER; None of anything else. FOLDER has no empty parts: `//` can not be
    mounted."""
    match = re.fullmatch(r"gs://([a-z0-9][a-z0-9._-]*)(/[^/]+)+/?", path)
    return match and match[1]


def mounted(path: str) -> str:
    """A path as a run sees it: what lies in no bucket lies where it lay."""
    return re.sub("^gs://", f"{ROOT}/", path)
