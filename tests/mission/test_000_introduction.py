"""The post that introduced Dynamic Resource Allocation in 1.26, translated: played with the runtime of the machine."""

from tests.mission.introduction import Introduction


class TestTranslatedPost(Introduction):
    """On containers of the best runtime that there is."""
