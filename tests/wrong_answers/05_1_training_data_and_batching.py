"""Wrong answers to the exercises of 5.1, by check and by mistake."""

import unicodedata


def spelled(spell, keep=lambda piece, known: piece in known):
    """An answer that spells unknown pieces in its own way."""

    def candidate(pieces, known):
        result = []
        for piece in pieces:
            result += [piece] if keep(piece, known) else spell(piece)
        return result

    return candidate


def in_bytes(piece, encoding="utf-8", form="<0x{:02X}>"):
    return [form.format(byte) for byte in piece.encode(encoding)]


def changes_what_it_is_given(pieces, known):
    while unknown := [piece for piece in pieces if piece not in known]:
        place = pieces.index(unknown[0])
        pieces[place : place + 1] = in_bytes(unknown[0])
        known |= set(pieces[place:])
    return pieces


WRONG = {
    "check_bytes": {
        "code points": spelled(lambda piece: [f"<0x{ord(c):02X}>" for c in piece]),
        "two bytes a character": spelled(lambda piece: in_bytes(piece, "utf-16-be")),
        "small digits": spelled(lambda piece: in_bytes(piece, form="<0x{:02x}>")),
        "one digit where it suffices": spelled(
            lambda piece: in_bytes(piece, form="<0x{:X}>")
        ),
        "the first byte alone": spelled(lambda piece: in_bytes(piece)[:1]),
        "one string for all bytes": spelled(lambda piece: ["".join(in_bytes(piece))]),
        "keeps what is made of known letters": spelled(
            in_bytes, lambda piece, known: set(piece) <= known or piece in known
        ),
        "keeps ASCII": spelled(in_bytes, lambda piece, known: piece.isascii()),
        "spells all": spelled(in_bytes, lambda piece, known: False),
        "drops the unknown": spelled(lambda piece: []),
        "changes what it is given": changes_what_it_is_given,
        "keeps what begins with the mark": spelled(
            in_bytes, lambda piece, known: piece in known or piece.startswith("▁")
        ),
        "does not see the mark": spelled(
            in_bytes, lambda piece, known: piece in known or piece.lstrip("▁") in known
        ),
        "does not see the case": spelled(
            in_bytes, lambda piece, known: piece in known or piece.lower() in known
        ),
        "composes letters and accents": spelled(
            lambda piece: in_bytes(unicodedata.normalize("NFC", piece))
        ),
        "keeps what is part of a known piece": spelled(
            in_bytes, lambda piece, known: any(piece in other for other in known)
        ),
        "empties the set": lambda pieces, known: (
            spelled(in_bytes)(pieces, known),
            known.clear(),
        )[0],
        "drops a known piece that comes again": lambda pieces, known: spelled(in_bytes)(
            [p for i, p in enumerate(pieces) if p not in known or p not in pieces[:i]],
            known,
        ),
        "keeps digits": spelled(
            in_bytes, lambda piece, known: piece in known or piece.isdigit()
        ),
        "keeps what looks like a byte": spelled(
            in_bytes, lambda piece, known: piece in known or piece.startswith("<0x")
        ),
    },
    "check_overweight": {
        "the share of the step": lambda tokens: [n / sum(tokens) for n in tokens],
        "upside down": lambda tokens: [n * len(tokens) / sum(tokens) for n in tokens],
        "without the number of batches": lambda tokens: [
            sum(tokens) / n for n in tokens
        ],
        "the weight, not the factor": lambda tokens: [
            1 / n / len(tokens) for n in tokens
        ],
        "against the largest": lambda tokens: [max(tokens) / n for n in tokens],
        "two batches always": lambda tokens: [sum(tokens) / 2 / n for n in tokens],
        "nothing is too heavy": lambda tokens: [1.0 for _ in tokens],
        "in order of size": lambda tokens: [
            sum(tokens) / len(tokens) / n for n in sorted(tokens, reverse=True)
        ],
        "one number": lambda tokens: [sum(tokens) / len(tokens) / min(tokens)],
        "equal batches counted once": lambda tokens: [
            sum(set(tokens)) / len(set(tokens)) / n for n in tokens
        ],
        "a single number, no list": lambda tokens: (
            sum(tokens) / len(tokens) / min(tokens)
        ),
        "a column": lambda tokens: [[sum(tokens) / len(tokens) / n] for n in tokens],
    },
}
