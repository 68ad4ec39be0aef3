"""SIGKILL at random moments while sweeps run and clients upload: nothing acknowledged is lost, nothing is there twice.

Two stretches. In the first, API, runner and sweep processes are killed under modelled sweeps. In the second, a sweep
that measures on a Ray worker runs beside them, and workers and the Ray head are killed too. A measuring sweep has no
trial to show before its profile is there; by design it is given up after five claims without a new trial, or after four
lost workers in one start. So each of them is hit no more often than `MOST_WORKERS` and `MOST_LOSSES` allow, and is then
left to end before the next one begins.
"""

from __future__ import annotations

import random
import time
from collections import Counter

from tests.reliability.processes import House, house
from tests.reliability.report import Part, say
from tests.reliability.work import ENDED, PATIENCE_S, Book, differences, listed

SHARES = {
    "modelled": {"API": 15, "runner": 12, "sweep child": 11},
    "measuring": {"worker actor": 6, "Ray head": 4, "API": 1, "runner": 1},
}
"""Of fifty kills."""

MOST_WORKERS = 3
MOST_LOSSES = 3
GAP_S = (0.1, 1.8)
SETTLE_S = 180.0
VICTIM_S = 45.0
"""So long somebody who may be killed is waited for."""


def kills(database: str, database_url: str | None, count: int, seed: int) -> Part:
    """`count` kills on one database."""
    part = Part(f"Kills on {database}", __doc__.split("\n\n")[0] if __doc__ else "")
    with house(database_url, with_ray=True) as home:
        book = Book(home)
        undisturbed = book.queue()
        book.wait_complete(undisturbed, SETTLE_S)
        say(f"{database}: a sweep without disturbance has ended; killing begins")
        book.begin()
        try:
            fire = Fire(home, book, random.Random(seed), count)
            fire.modelled()
            fire.measuring()
            say(f"{database}: {sum(fire.killed.values())} kills done; waiting for the sweeps to end")
            home.wait_ready()
            ended = book.wait_ended(book.sweeps, SETTLE_S)
        finally:
            book.end()
        _judge(part, home, book, undisturbed, ended, fire, count)
    return part


class Fire:
    """Kills by lot until the deck is empty."""

    def __init__(self, home: House, book: Book, dice: random.Random, count: int) -> None:
        self.killed: Counter[str] = Counter()
        self._home = home
        self._book = book
        self._dice = dice
        self._decks = {name: self._deck(shares, count) for name, shares in SHARES.items()}

    def modelled(self) -> None:
        """API, runner and sweep processes, with two sweeps waiting or at work at any time."""
        deck = self._decks["modelled"]
        while deck:
            self._keep_busy()
            self._pause()
            victim = self._kill(deck)
            if victim is None:
                raise TimeoutError(f"nobody of {sorted(set(deck))} came up in {VICTIM_S:g} s")
            deck.remove(victim)

    def measuring(self) -> None:
        """Everything, with one measuring sweep at a time."""
        deck = self._decks["measuring"]
        while deck:
            sweep_id = self._book.queue(measured=True)
            say(f"sweep {sweep_id} measures; {len(deck)} kills are left")
            hits: Counter[str] = Counter()
            while self._book.state(sweep_id)["state"] not in ENDED:
                allowed = [victim for victim in deck if _may_be_hit(victim, hits)]
                if not allowed:
                    break
                self._keep_busy()
                self._pause()
                victim = self._kill(allowed, sweep_id)
                if victim is not None:
                    deck.remove(victim)
                    hits[victim] += 1
            if deck:
                self._book.wait_ended([sweep_id], SETTLE_S)

    def _deck(self, shares: dict[str, int], count: int) -> list[str]:
        whole = sum(sum(each.values()) for each in SHARES.values())
        deck = [part for part, share in shares.items() for _ in range(round(share * count / whole) or 1)]
        self._dice.shuffle(deck)
        return deck

    def _keep_busy(self) -> None:
        waiting = [each for each in self._book.modelled[-2:] if self._book.state(each)["state"] not in ENDED]
        if len(waiting) < 2:
            self._book.queue()

    def _pause(self) -> None:
        time.sleep(self._dice.uniform(*GAP_S))

    def _kill(self, victims: list[str], sweep_id: str | None = None) -> str | None:
        """Kill the first of `victims` that lives now; None when none does for long, or the sweep has ended before."""
        deadline_s = time.monotonic() + VICTIM_S
        while time.monotonic() < deadline_s:
            for victim in victims:
                if self._can_die(victim) and self._home.kill(victim):
                    self.killed[victim] += 1
                    return victim
            if sweep_id is not None and self._book.state(sweep_id)["state"] in ENDED:
                return None
            time.sleep(0.1)
        return None

    def _can_die(self, victim: str) -> bool:
        return victim != "Ray head" or self._home.ray_answers()


def _may_be_hit(victim: str, hits: Counter[str]) -> bool:
    if victim == "API":
        return True
    if victim == "worker actor":
        return hits[victim] < MOST_WORKERS
    return sum(hits[other] for other in ("Ray head", "runner", "sweep child")) < MOST_LOSSES


def _judge(
    part: Part,
    home: House,
    book: Book,
    undisturbed: str,
    ended: dict[str, dict[str, object]],
    fire: Fire,
    count: int,
) -> None:
    wrong = {each: (found["state"], found["error"]) for each, found in ended.items() if found["state"] != "complete"}
    part.promise(f"every one of {len(ended)} sweeps ended well", not wrong, wrong)
    with home.client() as http:
        traces, sweeps = listed(http, "/traces"), listed(http, "/sweeps")
    lost = set(book.uploads) - set(traces)
    part.promise(f"every one of {len(set(book.uploads))} acknowledged uploads is there", not lost, lost)
    part.promise("every acknowledged sweep is there, none twice", sorted(sweeps) == sorted(book.sweeps))
    part.promise("no upload is listed twice", len(traces) == len(set(traces)))
    for sweep_id in book.sweeps:
        book.look_at_trials(sweep_id)
    trials = sum(map(len, book.trials.values()))
    part.promise(
        f"every one of {trials} trials is there once, in order, as it was first seen",
        not book.contradictions and all(len(book.trials[each]) == ended[each]["trials"] for each in book.sweeps),
        book.contradictions[:5],
    )
    answered = not book.unanswered
    part.promise(f"every request was answered within {PATIENCE_S:g} s, by asking again", answered, book.unanswered)
    reference = book.recommendation(undisturbed)
    compared = [each for each in book.modelled if each not in wrong and each != undisturbed]
    other = [text for each in compared for text in differences(reference, book.recommendation(each))]
    part.promise(
        f"each of {len(compared)} killed sweeps recommends what the undisturbed one does",
        bool(compared) and not other,
        other[:5],
    )
    book.close()
    dealt = sum(fire.killed.values())
    part.promise(f"{count} kills were dealt", dealt >= count, dealt)
    part.figures.append("killed: " + ", ".join(f"{part} {n}" for part, n in sorted(fire.killed.items())))
    part.figures.append(f"sweeps: {len(book.modelled)} modelled, {len(book.measured)} that measured on a Ray worker")
