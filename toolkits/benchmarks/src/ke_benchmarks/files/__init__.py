"""Support for benchmarks that are published as a file. Plugins import it from ``ke_benchmarks``.

A family consists of three parts: its variants, its record, and its cases.

``variants.py`` is imported by ``__init__.py`` for the specifications, without cattrs or json::

    VARIANTS = (Variant(name="toy-big", family="toy", summary="...", file="big.json", url="https://...", license="MIT",
                        cite=CITE, published={"cases": 120}),)

``records.py`` has attrs classes with the field names of the file. Every field that is used must be present and have the
right type; unknown fields are ignored. Validators and ``__attrs_post_init__`` raise a short ValueError::

    @frozen(kw_only=True)
    class Record:
        case_id: int
        subject: str = field(validator=not_blank)
        answers: tuple[str, ...] = field(validator=some_not_blank)  # JSON lists are tuples
        note: str | None = None                                     # may be absent or null

``dataset.py`` is imported on use. ``self.records(Record)`` reads the file; an invalid record raises BadData with
file, record and field. ``hides``, ``split``, ``material`` and ``info`` are implemented; ``find`` downloads files with a
known checksum::

    @frozen(kw_only=True)
    class Toy(FileDataset):
        def cases(self) -> Iterator[Case]:
            return map(case, self.records(Record))

        def prompt(self, query: Query, style: str) -> Prompt | None: ...

``config`` is the family's own attrs class; its fields ``data_dir: str | None`` and ``mask: bool`` are supported.

A dataset that is built instead of read from a file (``atlas``) uses ``CaseDataset`` and implements ``info``.
"""
