"""Wrong answers to the exercises of 3.5, by check and by mistake."""

import math

import torch


def wave_number(positions, d_model, base=10_000):
    """The pair, not yet a whole number, whose wavelength is so many positions."""
    return math.log(positions / (2 * math.pi)) / math.log(base) * d_model / 2


def slow_enough(pair, d_model):
    """The pair if the table has it."""
    return pair if pair < d_model // 2 else None


def slowest_turn(here, there):
    return torch.atan2(there[-2], there[-1]) - torch.atan2(here[-2], here[-1])


def slowest_wave(here):
    return 10_000 ** ((len(here) - 2) / len(here))


WRONG = {
    "check_pair": {
        "a pair below 0 for few positions": lambda n, d: slow_enough(
            math.ceil(wave_number(n, d)), d
        ),
        "a pair that the table does not have": lambda n, d: max(
            0, math.ceil(wave_number(n, d))
        ),
        "the last pair where none is slow enough": lambda n, d: min(
            max(0, math.ceil(wave_number(n, d))), d // 2 - 1
        ),
        "one too fast": lambda n, d: slow_enough(
            max(0, math.floor(wave_number(n, d))), d
        ),
        "one too slow": lambda n, d: slow_enough(
            max(0, math.floor(wave_number(n, d)) + 1) if n > 6 else 1, d
        ),
        "without 2π": lambda n, d: slow_enough(
            max(0, math.ceil(math.log(n) / math.log(10_000) * d / 2)), d
        ),
        "the channel": lambda n, d: slow_enough(
            2 * max(0, math.ceil(wave_number(n, d))), d
        ),
        "half a circle": lambda n, d: slow_enough(
            max(0, math.ceil(wave_number(2 * n, d))), d
        ),
        "the authors' divisor": lambda n, d: slow_enough(
            max(0, math.ceil(wave_number(n, d - 2))), d
        ),
        "for one width": lambda n, d: slow_enough(
            max(0, math.ceil(wave_number(n, 512))), 512
        ),
        "the slowest": lambda n, d: d // 2 - 1,
    },
    "check_distance": {
        "no full circle": lambda here, there: round(
            (slowest_turn(here, there) * slowest_wave(here)).item()
        ),
        "the size of the turn": lambda here, there: abs(
            round((slowest_turn(here, there) * slowest_wave(here)).item())
        ),
        "no frequency": lambda here, there: round(
            (slowest_turn(here, there) % (2 * math.pi)).item()
        ),
        "frequency of the pair beyond the last": lambda here, there: round(
            (slowest_turn(here, there) % (2 * math.pi) * 10_000).item()
        ),
        "for one width": lambda here, there: round(
            (slowest_turn(here, there) % (2 * math.pi) * 10_000 ** (14 / 16)).item()
        ),
        "the first hand": lambda here, there: round(
            (
                (torch.atan2(there[0], there[1]) - torch.atan2(here[0], here[1]))
                % (2 * math.pi)
            ).item()
        ),
        "sine and cosine exchanged": lambda here, there: round(
            (
                (torch.atan2(there[-1], there[-2]) - torch.atan2(here[-1], here[-2]))
                % (2 * math.pi)
                * slowest_wave(here)
            ).item()
        ),
        "arcsine": lambda here, there: round(
            (
                (there[-2].clamp(-1, 1).asin() - here[-2].clamp(-1, 1).asin())
                * slowest_wave(here)
            ).item()
        ),
        "always 0": lambda here, there: 0,
    },
    "check_step": {
        "stands on the left": lambda table: (
            torch.linalg.lstsq(table[:-1], table[1:]).solution.T
        ),
        "a step back": lambda table: torch.linalg.lstsq(table[1:], table[:-1]).solution,
        "with a constant": lambda table: torch.linalg.lstsq(
            torch.cat([table[:-1], torch.ones(len(table) - 1, 1)], dim=1), table[1:]
        ).solution[:-1],
        "centred": lambda table: (
            torch.linalg.lstsq(
                table[:-1] - table[:-1].mean(0), table[1:] - table[1:].mean(0)
            ).solution
        ),
        "from one half": lambda table: (
            torch.linalg.lstsq(
                table[: len(table) // 2], table[1 : len(table) // 2 + 1]
            ).solution
        ),
        "by the first rows": lambda table: torch.linalg.solve(
            table[: table.size(1)], table[1 : table.size(1) + 1]
        ),
        "the identity": lambda table: torch.eye(table.size(1), dtype=table.dtype),
        "the paper's rotation": lambda table: torch.block_diag(
            *[
                torch.tensor(
                    [
                        [math.cos(turn), -math.sin(turn)],
                        [math.sin(turn), math.cos(turn)],
                    ],
                    dtype=table.dtype,
                )
                for turn in [
                    10_000 ** (-2 * i / table.size(1))
                    for i in range(table.size(1) // 2)
                ]
            ]
        ),
    },
}
