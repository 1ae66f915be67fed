"""The post that introduced Dynamic Resource Allocation in 1.26, in English: played with containers as processes."""

from tests.mission.introduction import Introduction


class TestPost(Introduction):
    """On containers that are plain processes, which every machine can run."""

    options = ("--runtime=process",)
