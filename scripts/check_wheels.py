"""Fail when a wheel lacks its `py.typed`, when versions differ, or when the core wheel is too large."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

CORE_LIMIT = 12_000_000  # bytes, with the embedding

wheels = [Path(name) for name in sys.argv[1:]]
problems = []
for wheel in wheels:
    names = zipfile.ZipFile(wheel).namelist()
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB, {len(names)} files")
    if not any(name.endswith("py.typed") for name in names):
        problems.append(f"{wheel.name} has no py.typed")
    if not any("LICENSE" in name for name in names):
        problems.append(f"{wheel.name} has no licence")
versions = {wheel.name.split("-")[1] for wheel in wheels}
if len(wheels) != 7 or len(versions) != 1:
    problems.append(f"want seven wheels of one version, got {len(wheels)} of {sorted(versions)}")
minilm = next((wheel for wheel in wheels if wheel.name.startswith("catena_minilm-")), None)
held = zipfile.ZipFile(minilm).namelist() if minilm else []
if not all(any(name.endswith(part) for name in held) for part in ("data/model.onnx", "tokenizer.json", "NOTICE")):
    problems.append("the wheel of catena-minilm is missing, or its model, or whose the model is")
core = next((wheel for wheel in wheels if wheel.name.startswith("catena_core-")), None)
if core is None or core.stat().st_size > CORE_LIMIT:
    problems.append("the core wheel is missing or too large")
print(*problems or ["all wheels are fine"], sep="\n")
sys.exit(bool(problems))
