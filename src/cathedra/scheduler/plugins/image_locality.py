"""ImageLocality: nodes that have the pod's images already are a little better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cathedra.scheduler.framework.plugin import MAX_SCORE, CycleState, NodePredicate, ScorePlugin
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo

_MEGABYTE = 1024 * 1024
SMALLEST = 23 * _MEGABYTE
"""Images below this size are not worth a thought."""
LARGEST_PER_CONTAINER = 1000 * _MEGABYTE
_WITHOUT_IMAGES: Final = NodePredicate(lambda node: not node.image_sizes)


class ImageLocality(ScorePlugin):
    """Scores bytes that need not be pulled; an image that few nodes have counts less."""

    name = "ImageLocality"
    weight = 1
    zero_where = _WITHOUT_IMAGES

    def score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        """0 below 23 MB, 100 at 1000 MB per container."""
        everywhere = state.snapshot.nodes
        if state.snapshot.all_are(_WITHOUT_IMAGES.of, (), nodes):
            return None
        spec = pod.pod.spec
        images = [_normalized(container.image) for container in (*spec.init_containers, *spec.containers)]
        spread = {i: sum(i in node.image_sizes for node in everywhere) / len(everywhere) for i in set(images)}
        largest = LARGEST_PER_CONTAINER * len(images)
        scores = []
        for node in nodes:
            present = sum(int(node.image_sizes.get(image, 0) * spread[image]) for image in images)
            bounded = min(max(present, SMALLEST), largest)
            scores.append(MAX_SCORE * (bounded - SMALLEST) // (largest - SMALLEST))
        return scores


def _normalized(image: str) -> str:
    """Return the image with its tag, as nodes list it."""
    return image if ":" in image.rsplit("/", 1)[-1] else f"{image}:latest"
