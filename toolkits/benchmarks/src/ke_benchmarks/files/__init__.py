"""What every benchmark that comes as a published file needs alike. Plugins import it from ``ke_benchmarks``.

A family writes three things: its variants, its record, and its cases.

``variants.py``, light (no cattrs, no json), read by ``__init__.py`` for the specifications::

    VARIANTS = (Variant(name="toy-big", family="toy", summary="...", file="big.json", url="https://...", license="MIT",
                        cite=CITE, published={"cases": 120}),)

``records.py``, attrs classes spelled like the file. Every field that is used must be there and of its type; fields that
the classes do not know are left alone. Validators and ``__attrs_post_init__`` raise ValueError in a few words::

    @frozen(kw_only=True)
    class Record:
        case_id: int
        subject: str = field(validator=said)
        answers: tuple[str, ...] = field(validator=some_said)      # JSON lists are tuples
        note: str | None = None                                    # may be absent or null

``dataset.py``, built late. ``self.records(Record)`` streams the file; a wrong one is BadData that names file, record
and field. ``hides``, ``split``, ``material`` and ``info`` are there; ``find`` fetches what has a checksum::

    @frozen(kw_only=True)
    class Toy(FileDataset):
        def cases(self) -> Iterator[Case]:
            return map(case, self.records(Record))          # lazy: the first case is there at once

        def prompt(self, query: Query, style: str) -> Prompt | None: ...

``config`` is the family's own attrs class; ``data_dir: str | None`` and ``mask: bool`` in it are honored.

A dataset that is made and not read from a file (``atlas``) takes ``CaseDataset`` instead: ``info`` is then its own.
"""
