"""Keeps the checkpoints of a graph of which nobody knows which of its nodes have an effect."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)

from app.engine.journal import Journal


class WritingSaver(BaseCheckpointSaver[Any]):
    """Writes every checkpoint, and what every task has done, at once.

    `failure` is what the store has raised, which no node's own failure is to be taken for.
    """

    def __init__(self, saver: BaseCheckpointSaver[Any], journal: Journal) -> None:
        super().__init__(serde=saver.serde)
        self.failure: Exception | None = None
        self._saver = saver
        self._journal = journal
        self._loop = asyncio.get_running_loop()

    def with_allowlist(self, extra_allowlist: Any) -> "WritingSaver":
        """Returns itself: what is restored is what the saver within restores."""
        return self

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self._saver.get_next_version(current, channel)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._saver.aget_tuple(config)

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[Any]:
        async for each in self._saver.alist(config, **options):
            yield each

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        put = await self._saver.aput(config, checkpoint, metadata, new_versions)
        await self._write()
        return put

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await self._saver.aput_writes(config, writes, task_id, task_path)
        await self._write()

    async def _write(self) -> None:
        self._journal.keep()
        try:
            await self._journal.barrier()
        except Exception as error:
            self.failure = self.failure or error
            raise

    # A node that is no coroutine runs in a thread, and may invoke a graph there.

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._wait(self.aget_tuple(config))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return self._wait(self.aput(config, checkpoint, metadata, new_versions))

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        self._wait(self.aput_writes(config, writes, task_id, task_path))

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
