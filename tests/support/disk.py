"""What the disk holds of a file by now."""

import fcntl
import struct
from pathlib import Path


def unplaced(path: Path) -> bool:
    """Whether some of the file is in memory only, without a place on the disk: what the kernel says about its extents (FS_IOC_FIEMAP)."""
    asked = bytearray(struct.pack("=QQIIII", 0, 2**64 - 1, 0, 0, 1, 0) + bytes(56))
    with path.open("rb") as file:
        try:
            fcntl.ioctl(file, 0xC020660B, asked)
        except OSError:
            return False
    return bool(struct.unpack_from("=I", asked, 32 + 40)[0] & 4)  # FIEMAP_EXTENT_DELALLOC


def places_late(folder: Path) -> bool:
    """Whether the disk of `folder` gives new files their place only later, and tells."""
    (control := folder / "control").write_bytes(b"x" * 10_000)
    late = unplaced(control)
    control.unlink()
    return late
