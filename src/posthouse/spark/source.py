"""`format("posthouse")`: the entry point of the Spark data source."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from posthouse.spark.checkpoints import check_checkpoint
from posthouse.spark.options import source_options
from posthouse.spark.plain_errors import OURS, plain_errors
from posthouse.spark.quiet_daemon import quiet_planning
from posthouse.spark.schema import message_schema

MSMQ = "msmq"

quiet_planning()  # before Spark asks for anything: its first look for sources makes none of them


# Not streamReader, which returns a reader that refuses.
@plain_errors("schema", "reader", "writer", "streamWriter")
class PosthouseSource(DataSource):
    """Queues as tables and streams, in and out.

    Spark makes many of these, in several processes: they hold the options and nothing else.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "posthouse"

    def schema(self) -> StructType:
        """The columns that the options ask for; what is wrong with the options is said here."""
        if self._is_msmq():
            from posthouse.spark.msmq.source import source_columns

            columns, as_text = source_columns(self.options)
            return message_schema(columns, as_text=as_text)
        options = source_options(self.options)
        check_checkpoint(options.checkpoint)
        return message_schema(options.columns, exact=True, as_text=options.json_as_text)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read."""
        if self._is_msmq():
            from posthouse.spark.msmq import source as msmq_source

            return msmq_source.reader(self.options, schema)
        from posthouse.spark.batch import batch_reader

        return batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A stream. What is wrong with it is said at its first call.

        Where this method fails, Spark's program for streams fails once more, and that error is the
        one that it reports.
        """
        from posthouse.spark.stream import RefusedStream, StreamReader

        try:
            if self._is_msmq():
                from posthouse.spark.msmq import source as msmq_source

                return msmq_source.stream_reader(self.options, schema)
            made = StreamReader(self.options, schema)
            check_checkpoint(made.options.checkpoint)  # who gives a schema is not asked for ours
        except OURS as error:
            return RefusedStream(error)
        return made

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch write."""
        from posthouse.spark import sink

        return sink.writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The sink of a stream."""
        from posthouse.spark import sink

        return sink.stream_writer(self.options, schema, overwrite)

    def _is_msmq(self) -> bool:
        return self.options.get("transport", "").strip().lower() == MSMQ
