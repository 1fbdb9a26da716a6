"""Writes prompts and completions made of the sample text's stories: which thing a story is about, and how it ends.

    python3 make_data.py STORIES.txt TRAIN.jsonl TEST.jsonl
"""
import json
import re
import sys


def sample(story):
    """The first two sentences ask, the thing in the second and the story's last sentence answer."""
    sentences = re.split(r"(?<=\.) (?=[A-Z])", story.replace('"', ""))
    thing = re.search(r"came by with (.*?)\.", story).group(1)
    return {"prompt": " ".join(sentences[:2]) + "\nWhat? ", "completion": f"{thing}. {sentences[-1]}"}


source, train, test = sys.argv[1:]
samples = [sample(story) for story in open(source).read().split("\n\n") if "came by with" in story]
held = len(samples) // 10
for path, part in ((train, samples[held:]), (test, samples[:held])):
    with open(path, "w") as file:
        file.writelines(json.dumps(one) + "\n" for one in part)
