"""Drift alarms that keep their promise: streaming p-values, test martingales, and a monitor of the live error rate."""

from caveat.drift.alarm import DriftAlarm
from caveat.drift.bettors import PlugInHistogram, PowerMixture, SimpleJumper
from caveat.drift.label_queue import LabelQueue
from caveat.drift.rank_urn import RankUrn
from caveat.drift.risk_monitor import RiskMonitor

__all__ = ["DriftAlarm", "LabelQueue", "PlugInHistogram", "PowerMixture", "RankUrn", "RiskMonitor", "SimpleJumper"]
