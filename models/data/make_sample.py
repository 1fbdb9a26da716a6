"""Writes sample.txt: small stories out of a small grammar, the same every time. Text enough for a demo, nobody's property.

    python3 make_sample.py > sample.txt
"""
import random

NAMES = "Ada Bruno Clara Deniz Edda Farid Greta Hugo Ines Jonas Kira Leon Mila Nils Olga Paul".split()
JOBS = "a miller;a ferryman;a clockmaker;a weaver;a beekeeper;a mapmaker;a baker;a potter".split(";")
PLACES = "the old mill;the harbour;the market square;the stone bridge;the north tower;the orchard;the workshop;the library".split(";")
THINGS = "a brass lamp;a torn map;a basket of apples;a silver key;a coil of rope;a broken clock;a jar of honey;a wooden boat".split(";")
WEATHER = "It was raining;The sun had just come up;A cold wind blew from the sea;The first snow lay on the roofs;It was a warm evening".split(";")
WHY = "because the door would not open;because nobody else had time;to keep a promise;since the winter was near;to see how it was made".split(";")
ENDS = "They laughed about it for years.;After that the two were friends.;Nobody in the town ever spoke of it again.;The next morning everything was as before.;And so the matter was settled.".split(";")


def definite(thing):
    return "the" + thing[1:]


def dialogue(r, one, other, thing):
    price = r.choice("two coins;a loaf of bread;a song;nothing at all;half a day's work".split(";"))
    return [
        f'"Where did you find {definite(thing)}?" asked {one}.',
        f'"In {r.choice(PLACES)}," said {other}. "You may have it for {price}."',
        r.choice([f'"{price.capitalize()}? Agreed," said {one}.', f'{one} thought about it and said no.']),
    ]


def story(r):
    one, other = r.sample(NAMES, 2)
    thing, place, away = r.choice(THINGS), *r.sample(PLACES, 2)
    lines = [f"{one} was {r.choice(JOBS)} and lived near {place}.", f"{r.choice(WEATHER)} when {other} came by with {thing}."]
    lines += dialogue(r, one, other, thing) if r.random() < 0.7 else []
    lines.append(f"So {one} went to {away} {r.choice(WHY)}, and {other} went along.")
    if r.random() < 0.5:
        lines.append(f"On the way they lost {definite(thing)}, and found it again under {r.choice(['a bench', 'a cart', 'the snow', 'an oak'])}.")
    lines.append(r.choice(ENDS))
    return " ".join(lines)


def main():
    r = random.Random(1)
    size = 0
    while size < 120_000:
        text = story(r) + "\n\n"
        size += len(text)
        print(text, end="")


main()
