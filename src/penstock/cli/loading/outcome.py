"""The figures of a finished run, and whether confirmed messages were lost."""

from dataclasses import dataclass
from typing import Final

from penstock.cli.loading.arrivals import Account, ArrivalsPage
from penstock.cli.loading.latency import LatencyHistogram
from penstock.cli.loading.plan import Plan
from penstock.cli.loading.reports import FaucetFinished, SinkFinished

PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9, 100.0)

NANOSECONDS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """Rates per second; latencies in microseconds by percentile."""

    published: int
    confirmed: int
    delivered: int
    foreign: int
    publish_rate: float
    # Seed 000's figures: publishes times the queues they reach, and what leaves to consumers.
    internal_switching_rate: float
    external_switching_rate: float
    latency: dict[float, int | None]
    confirm_latency: dict[float, int | None]
    account: Account
    faucet_cpu_microseconds: float
    sink_cpu_microseconds: float
    faults: tuple[str, ...]
    # Whether publisher confirms were used; without them a lost message is not an error.
    confirming: bool

    @property
    def broke_a_promise(self) -> bool:
        return self.confirming and self.account.lost > 0

    def as_json(self) -> dict[str, object]:
        account = self.account
        return {
            "published": self.published,
            "confirmed": self.confirmed,
            "delivered": self.delivered,
            "publish_rate": round(self.publish_rate),
            "isr": round(self.internal_switching_rate),
            "xsr": round(self.external_switching_rate),
            "latency_us": _named(self.latency),
            "confirm_latency_us": _named(self.confirm_latency),
            "lost": account.lost,
            "not_promised": account.not_promised,
            "duplicates_flagged": account.duplicates_flagged,
            "duplicates_unflagged": account.duplicates_unflagged,
            "out_of_order": account.out_of_order,
            "foreign": self.foreign,
            "publisher_cpu_us_per_message": round(self.faucet_cpu_microseconds, 3),
            "consumer_cpu_us_per_message": round(self.sink_cpu_microseconds, 3),
            "faults": list(self.faults),
        }


def conclude(plan: Plan, faucets: list[FaucetFinished], sinks: list[SinkFinished]) -> Outcome:
    published = sum(faucet.published for faucet in faucets)
    confirmed = sum(faucet.confirmed for faucet in faucets)
    delivered = sum(sink.delivered for sink in sinks)
    began = min(faucet.started for faucet in faucets)
    publishing = max(faucet.ended for faucet in faucets) - began
    delivering = max((sink.last_delivery for sink in sinks), default=0) - began
    switched = confirmed if plan.confirm_window else published
    publish_rate = _rate(switched, publishing)
    faults = [faucet.fault for faucet in faucets] + [sink.fault for sink in sinks]
    return Outcome(
        published=published,
        confirmed=confirmed,
        delivered=delivered,
        foreign=sum(sink.foreign for sink in sinks),
        publish_rate=publish_rate,
        internal_switching_rate=publish_rate * plan.queues_reached,
        external_switching_rate=_rate(delivered, delivering),
        latency=_percentiles([sink.latency for sink in sinks]),
        confirm_latency=_percentiles([faucet.confirm_latency for faucet in faucets]),
        account=settle_account(plan, faucets, sinks) if sinks else Account(),
        faucet_cpu_microseconds=_each(sum(f.cpu_seconds for f in faucets), published),
        sink_cpu_microseconds=_each(sum(s.cpu_seconds for s in sinks), delivered),
        faults=tuple(fault for fault in faults if fault),
        confirming=plan.confirm_window > 0,
    )


def settle_account(plan: Plan, faucets: list[FaucetFinished], sinks: list[SinkFinished]) -> Account:
    account = Account()
    for faucet in faucets:
        unpromised = frozenset(faucet.unpromised)
        for queue in plan.queues_of_publisher(faucet.publisher):
            key = (queue, faucet.publisher)
            pages: list[ArrivalsPage] = [sink.pages[key] for sink in sinks if key in sink.pages]
            account.settle(queue, faucet.publisher, faucet.published, unpromised, pages)
    return account


def _percentiles(histograms: list[dict[int, int]]) -> dict[float, int | None]:
    merged = LatencyHistogram()
    merged.merge(LatencyHistogram(counts) for counts in histograms)
    return {percent: merged.percentile(percent) for percent in PERCENTILES}


def _rate(count: int, nanoseconds: int) -> float:
    return count * NANOSECONDS / nanoseconds if nanoseconds > 0 else 0.0


def _each(seconds: float, count: int) -> float:
    return seconds * 1e6 / count if count else 0.0


def _named(latency: dict[float, int | None]) -> dict[str, int | None]:
    return {
        "max" if percent == 100 else f"p{percent:g}": value for percent, value in latency.items()
    }
