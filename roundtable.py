"""``import roundtable``: the package `pipelines` under the name of the product."""

from __future__ import annotations

import sys

import pipelines

sys.modules[__name__] = pipelines
