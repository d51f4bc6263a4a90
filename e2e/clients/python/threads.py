"""The official Python client at work: reads and watches until its stdin ends. See ../README.md for what it prints."""

import sys
import threading

from kubernetes import client, config, watch
from kubernetes.stream import stream

mode, kubeconfig, context, namespace, word = sys.argv[1:6]
api = client.CoreV1Api(config.new_client_from_config(config_file=kubeconfig, context=context))
ended = threading.Event()
said = threading.Lock()


def say(line):
    with said:
        print(line, flush=True)


def follow(version):
    events = watch.Watch().stream(
        api.list_namespaced_config_map, namespace, label_selector=word, resource_version=version
    )
    try:
        for event in events:
            say(f"event {event['type']} {event['object'].metadata.name}")
    except Exception as error:  # Whatever it is, the step has to know.
        if not ended.is_set():
            say(f"error watch: {error!r}")


def work():
    seen = api.list_namespaced_config_map(namespace, label_selector=word)
    threading.Thread(target=follow, args=(seen.metadata.resource_version,), daemon=True).start()
    say("ready")
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    reads = 0
    while not ended.wait(0.2):
        try:
            api.read_namespaced_config_map("steady", namespace)
            reads += 1
        except Exception as error:
            say(f"error read: {error!r}")
    say(f"reads {reads}")


if mode == "work":
    work()
else:
    # A client of its own: the stream helper replaces the request method of the one that it is given.
    print(
        stream(
            api.connect_get_namespaced_pod_exec,
            word,
            namespace,
            command=["echo", "from the pod"],
            stdin=False,
            stdout=True,
            stderr=True,
            tty=False,
        ),
        end="",
    )
